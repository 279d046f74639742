// SPDX-License-Identifier: BSD-2-Clause
// The event log: appending, the rows an event matches, pages of what was missed, retention (E-18, E-26 to E-29).
// Every call runs inside the caller's transaction or reads on its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/database.h"
#include "core/store_types.h"

namespace durable {

// A row that an event matched.
struct MatchedRow {
    std::int64_t id = 0;
    std::string sub_id;
    std::string account;
    std::optional<std::string> app;
    bool is_single = false;
    bool to_socket = false;
    bool to_worker = false;
    std::optional<std::string> handler;
    std::optional<std::string> suspended_reason;
};

struct Retention {
    std::int64_t age_ms = 604800000;
    std::int64_t events = 1000000;
};

class EventLog {
public:
    explicit EventLog(Database& database) noexcept : database_(database) {}

    // Sets seq, uuid and ts.
    void append(LoggedEvent& event, std::int64_t now_ms);

    // Leaves a gap event for one row; returns its position (E-34).
    std::int64_t append_gap(std::int64_t row, const char* reason, std::int64_t now_ms);

    // Every unexpired row that wants the event and is older than it, of all accounts the event reaches or of `account`
    // only; suspended ones too. A gap is wanted by its row alone.
    [[nodiscard]] std::vector<MatchedRow> matching_rows(const LoggedEvent& event,
                                                        const std::optional<std::string>& account, std::int64_t now_ms);

    // The last position given to an event, 0 before the first.
    [[nodiscard]] std::int64_t head();
    // Events up to this position are no longer there.
    [[nodiscard]] std::int64_t floor();

    // The next events after a position, gaps of single rows among them, at most `limit`.
    [[nodiscard]] std::vector<LoggedEvent> read(std::int64_t after, std::int64_t limit);
    [[nodiscard]] std::optional<LoggedEvent> find(std::int64_t seq);

    struct Page {
        std::vector<LoggedEvent> events;
        bool has_more = false;
    };
    // What `account` may see of a subject (E-29).
    [[nodiscard]] Page fetch(const Subject& subject, const std::string& account, std::int64_t after,
                             std::int64_t limit);

    // Whether the oldest event is too old or one too many.
    [[nodiscard]] bool needs_trim(const Retention& retention, std::int64_t now_ms);

    // Drops a bounded number of events that are too old or too many, sparing what deliveries still need.
    void trim(const Retention& retention, std::int64_t now_ms);

    // Drops events below the floor that had been spared and are no longer needed.
    void drop_spared();

private:
    void add_matches(const std::string& token, const LoggedEvent& event, const std::optional<std::string>& account,
                     std::int64_t now_ms, std::vector<MatchedRow>& rows);
    [[nodiscard]] std::vector<MatchedRow> rows_of_gap(const LoggedEvent& event);
    bool is_wanted(const LoggedEvent& event, const Subject& subject, const std::string& account) const;
    [[nodiscard]] std::vector<std::int64_t> positions(const Subject& subject, std::int64_t after);
    [[nodiscard]] std::vector<std::size_t> prefix_lengths();

    Database& database_;
};

}  // namespace durable
