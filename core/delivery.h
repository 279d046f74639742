// SPDX-License-Identifier: BSD-2-Clause
// Who is owed what: the backlog of `single` rows, leases of live streams, calls of handlers, failures (E-31 to E-35).
// The state is in the store alone; every call runs inside the caller's transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/database.h"
#include "core/event_log.h"
#include "core/store_types.h"

namespace durable {

inline constexpr std::int64_t kLeaseMs = 60000;
inline constexpr std::int64_t kMaxStreamTries = 2;
inline constexpr std::int64_t kMaxFailures = 5;
inline constexpr std::int64_t kMaxBackoffMs = 300000;
// How long a delivery waits for a live stream that exists but is too slow to take it.
inline constexpr std::int64_t kOfferMs = 5000;
// A broadcast not sent within this time is dropped: nothing is kept of it (E-32).
inline constexpr std::int64_t kBroadcastMs = 60000;

// Where the first delivery of a `single` row stands.
enum class DeliveryStage : std::int64_t {
    idle = 0,     // nothing is owed, or the row is suspended
    offered = 1,  // to live streams, until next_at
    leased = 2,   // to one live stream, until next_at
    due = 3,      // for the handler, from next_at on
    calling = 4,  // the handler is being called
};

// One delivery that a live stream took.
struct StreamClaim {
    std::string sub_id;
    std::optional<std::string> app;
    LoggedEvent event;
};

// One call of a handler. `delivery` is 0 for a broadcast.
struct HandlerCall {
    std::int64_t row = 0;
    std::int64_t delivery = 0;
    std::string handler;
    std::string webhook_id;  // the same in every try
    std::string body;
    bool is_gap = false;
};

struct CallResult {
    enum class Kind : std::uint8_t { settled, rejected, failed };
    Kind kind = Kind::failed;
    std::int64_t retry_after_ms = 0;
};

// min(300 s, 2 s × 2^(n−1)), n counting from 1 (E-34).
[[nodiscard]] std::int64_t backoff_ms(std::int64_t attempt) noexcept;

class Delivery {
public:
    Delivery(Database& database, EventLog& log) noexcept : database_(database), log_(log) {}

    // After an append: owes the event to the rows that keep it. Returns how many rows will be delivered to.
    std::int64_t enqueue(const LoggedEvent& event, std::int64_t now_ms);

    // E-31. Anything but the row's first delivery changes nothing.
    void acknowledge(std::int64_t row, const std::string& event_id, std::int64_t now_ms);

    // Takes up to `limit` offered deliveries for a stream of the caller's scope; `owner` names the stream.
    [[nodiscard]] std::vector<StreamClaim> claim_for_stream(const Caller& scope, const std::string& owner,
                                                            std::int64_t limit, std::int64_t now_ms);
    // The stream is gone: what it had not acknowledged is offered anew.
    void release_stream(const std::string& owner, std::int64_t now_ms);

    // Rows whose offer or lease ran out: offered again, or due for the handler. True: there was one.
    bool resolve_streams(std::int64_t now_ms);

    // Takes deliveries that are due, without the rows in `busy`.
    [[nodiscard]] std::vector<HandlerCall> claim_singles(const std::string& handler, std::int64_t limit,
                                                         const std::set<std::int64_t>& busy, std::int64_t now_ms);
    [[nodiscard]] std::vector<HandlerCall> claim_broadcasts(const std::string& handler, std::int64_t limit,
                                                            std::int64_t now_ms);
    void finish(const HandlerCall& call, const CallResult& result, std::int64_t now_ms);

    // Calls of a deliverer that died count as not made.
    void reclaim_calls(std::int64_t now_ms);

    // When the next offer, lease or retry of a handler runs out; nullopt: nothing is waiting.
    [[nodiscard]] std::optional<std::int64_t> next_offer_at();
    [[nodiscard]] std::optional<std::int64_t> next_due_at(const std::string& handler, std::int64_t now_ms);

    // Live streams of this process (`owner`), so that the deliverer knows who can take a delivery.
    void add_live_scope(const std::string& owner, const Caller& scope);
    void remove_live_scope(const std::string& owner, const Caller& scope);
    void keep_owner_alive(const std::string& owner, std::int64_t until_ms);
    void forget_owner(const std::string& owner);

    // Puts the row's first delivery, if any, to work.
    void advance(std::int64_t row, std::int64_t now_ms);

private:
    [[nodiscard]] bool has_live_stream(const std::string& account, const std::optional<std::string>& app,
                                       std::int64_t now_ms);
    void enqueue_single(const MatchedRow& row, const LoggedEvent& event, std::int64_t now_ms);
    void owe(std::int64_t row, std::int64_t seq, std::int64_t now_ms);
    void set_stage(std::int64_t row, DeliveryStage stage, std::optional<std::int64_t> next_at);
    void fail(const HandlerCall& call, const CallResult& result, std::int64_t now_ms);
    void reject(const HandlerCall& call, std::int64_t now_ms);
    void leave_gap(const HandlerCall& call, std::int64_t now_ms);
    void drop_called(const HandlerCall& call, std::int64_t now_ms);
    void count_failure(std::int64_t row, std::int64_t now_ms);
    std::optional<HandlerCall> make_call(std::int64_t row, std::int64_t delivery, const LoggedEvent& event);

    Database& database_;
    EventLog& log_;
};

}  // namespace durable
