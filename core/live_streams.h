// SPDX-License-Identifier: BSD-2-Clause
// The live streams of one worker, each a position in the event log (E-30, E-32, E-33). Runs on the store thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/delivery.h"
#include "core/event_log.h"
#include "core/store_types.h"

namespace durable {

class LiveStreams {
public:
    // Sends frames to a stream, which then counts as not ready.
    using Send = std::function<void(std::uint64_t stream, std::string frames)>;

    // `owner` names this process's streams in the store, for as long as the process lives.
    LiveStreams(Database& database, EventLog& log, Delivery& delivery, std::string owner, Send send);

    // Refused where the subject is not valid, or the store cannot be read.
    [[nodiscard]] Refusal open(std::uint64_t id, const Caller& caller, const std::optional<std::string>& subject,
                               const std::optional<std::string>& last_event_id, std::int64_t now_ms);
    void set_ready(std::uint64_t id);
    void close(std::uint64_t id, std::int64_t now_ms);
    void close_all(std::int64_t now_ms);

    // Sends what is new to the streams that are ready. True: there is more than one step's worth.
    bool pump(std::int64_t now_ms);

    // Tells the store that this process still has live streams. To be called at least every two seconds.
    void keep_alive(std::int64_t now_ms);
    // The store was opened anew: all is told again.
    void register_all(std::int64_t now_ms);

private:
    struct Stream {
        Caller caller;
        std::optional<Subject> session;  // none: the caller's persistent rows
        std::string sub_id;              // of a session
        std::string owner;               // names the stream in leases
        std::int64_t position = 0;
        bool is_ready = true;
        std::string frames;
    };
    using Rows = std::map<std::string, std::vector<MatchedRow>>;

    [[nodiscard]] Refusal open_session(Stream& stream, const std::string& subject,
                                       const std::optional<std::string>& last_event_id);
    void claim_singles(std::int64_t now_ms);
    bool read_log(std::int64_t now_ms);
    bool read_step(std::int64_t now_ms, std::int64_t head, std::int64_t floor);
    void skip_trimmed(std::int64_t head, std::int64_t floor);
    void add_event(Stream& stream, const LoggedEvent& event, Rows& rows, std::int64_t now_ms);
    void send_frames();

    Database& database_;
    EventLog& log_;
    Delivery& delivery_;
    std::string owner_;
    Send send_;
    std::map<std::uint64_t, Stream> streams_;
    std::map<std::pair<std::string, std::string>, int> scopes_;  // persistent streams by account and app
};

}  // namespace durable
