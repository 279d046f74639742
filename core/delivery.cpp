// SPDX-License-Identifier: BSD-2-Clause
#include "core/delivery.h"

#include <algorithm>

#include "core/event_documents.h"
#include "core/suspension.h"

namespace durable {
namespace {

constexpr std::int64_t kResolveStep = 256;
constexpr std::int64_t kMaxGapTries = 5;

constexpr char kIsLive[] =
    "SELECT 1 FROM live_scopes s JOIN live_owners o ON o.owner = s.owner"
    " WHERE s.account = ?1 AND (s.app = '' OR s.app = ?2) AND o.alive_until > ?3 LIMIT 1";
constexpr char kOwe[] = "INSERT INTO deliveries(sub, seq, at) VALUES(?1, ?2, ?3)";
constexpr char kBroadcast[] = "INSERT INTO broadcasts(handler, sub, seq, at) VALUES(?1, ?2, ?3, ?4)";
constexpr char kOfferIfIdle[] =
    "UPDATE subscriptions SET stage = ?2, next_at = ?3, attempts = 0, stream_tries = 0 WHERE id = ?1 AND stage = 0";
constexpr char kSetStage[] = "UPDATE subscriptions SET stage = ?2, next_at = ?3, lease_owner = NULL WHERE id = ?1";
constexpr char kFirstOwed[] = "SELECT id, seq FROM deliveries WHERE sub = ?1 ORDER BY id LIMIT 1";
constexpr char kDropOwed[] = "DELETE FROM deliveries WHERE id = ?1 AND sub = ?2";
constexpr char kResetTries[] = "UPDATE subscriptions SET attempts = 0, stream_tries = 0 WHERE id = ?1";
constexpr char kClearFailures[] = "UPDATE subscriptions SET failures = 0 WHERE id = ?1 AND failures > 0";
constexpr char kPlaceOf[] = "SELECT account, app, to_socket, suspended_reason FROM subscriptions WHERE id = ?1";
constexpr char kClaimable[] =
    "SELECT id, sub_id, app FROM subscriptions WHERE account = ?1 AND stage = 1 AND stream_tries < ?3"
    " AND (?2 IS NULL OR app = ?2) AND (expires_at IS NULL OR expires_at > ?4) ORDER BY next_at LIMIT ?5";
constexpr char kLease[] =
    "UPDATE subscriptions SET stage = 2, next_at = ?2, stream_tries = stream_tries + 1, lease_owner = ?3"
    " WHERE id = ?1";
// As a lease that runs out now: another stream may have its turn before the handler.
constexpr char kRelease[] =
    "UPDATE subscriptions SET next_at = ?2, lease_owner = NULL WHERE lease_owner = ?1 AND stage = 2";
constexpr char kRunOut[] =
    "SELECT id, account, app, stage, stream_tries FROM subscriptions WHERE stage IN (1, 2) AND next_at <= ?1"
    " ORDER BY next_at LIMIT ?2";
constexpr char kDue[] =
    "SELECT id FROM subscriptions WHERE handler = ?1 AND stage = 3 AND next_at <= ?2"
    " AND (expires_at IS NULL OR expires_at > ?3) ORDER BY next_at LIMIT ?4";
constexpr char kCallData[] =
    "SELECT account, handler, context, attempts FROM subscriptions WHERE id = ?1 AND handler IS NOT NULL";
constexpr char kDropStaleBroadcasts[] = "DELETE FROM broadcasts WHERE handler = ?1 AND at < ?2";
constexpr char kBroadcasts[] =
    "SELECT b.id, b.sub, b.seq FROM broadcasts b JOIN subscriptions s ON s.id = b.sub"
    " WHERE b.handler = ?1 AND s.suspended_at IS NULL AND (s.expires_at IS NULL OR s.expires_at > ?3)"
    " ORDER BY b.id LIMIT ?2";
constexpr char kDropBroadcast[] = "DELETE FROM broadcasts WHERE id = ?1";
constexpr char kCountFailure[] = "UPDATE subscriptions SET failures = failures + 1 WHERE id = ?1";
constexpr char kFailureRun[] = "SELECT failures FROM subscriptions WHERE id = ?1 AND suspended_at IS NULL";
constexpr char kRetry[] =
    "UPDATE subscriptions SET attempts = attempts + 1, stage = 3, next_at = ?2 WHERE id = ?1 AND stage = 4";
constexpr char kAttempts[] = "SELECT attempts FROM subscriptions WHERE id = ?1";
constexpr char kReclaim[] = "UPDATE subscriptions SET stage = 3, next_at = ?1 WHERE stage = 4";
constexpr char kNextOffer[] = "SELECT min(next_at) FROM subscriptions WHERE stage IN (1, 2)";
constexpr char kNextDue[] =
    "SELECT next_at FROM subscriptions WHERE handler = ?1 AND stage = 3"
    " AND (expires_at IS NULL OR expires_at > ?2) ORDER BY next_at LIMIT 1";
constexpr char kIsCalling[] = "SELECT 1 FROM subscriptions WHERE id = ?1 AND stage = 4";
constexpr char kAddScope[] = "INSERT OR IGNORE INTO live_scopes(account, app, owner) VALUES(?1, ?2, ?3)";
constexpr char kRemoveScope[] = "DELETE FROM live_scopes WHERE account = ?1 AND app = ?2 AND owner = ?3";
constexpr char kKeepAlive[] =
    "INSERT INTO live_owners VALUES(?1, ?2) ON CONFLICT(owner) DO UPDATE SET alive_until = ?2";
constexpr char kForgetScopes[] = "DELETE FROM live_scopes WHERE owner = ?1";
constexpr char kForgetOwner[] = "DELETE FROM live_owners WHERE owner = ?1";

struct Owed {
    std::int64_t id = 0;
    std::int64_t seq = 0;
};

std::optional<Owed> first_owed(Database& database, std::int64_t row) {
    Query query(database, kFirstOwed);
    query.with(row);
    return query.next() ? std::optional(Owed{query.integer(0), query.integer(1)}) : std::nullopt;
}

std::optional<std::int64_t> first_integer(Query& query) {
    return query.next() ? query.optional_integer(0) : std::nullopt;
}

}  // namespace

std::int64_t backoff_ms(std::int64_t attempt) noexcept {
    const std::int64_t doublings = std::clamp<std::int64_t>(attempt - 1, 0, 20);
    return std::min(kMaxBackoffMs, std::int64_t{2000} << doublings);
}

bool Delivery::has_live_stream(const std::string& account, const std::optional<std::string>& app, std::int64_t now_ms) {
    Query query(database_, kIsLive);
    query.with(account, app, now_ms);
    return query.next();
}

void Delivery::owe(std::int64_t row, std::int64_t seq, std::int64_t now_ms) {
    Query(database_, kOwe).with(row, seq, now_ms).run();
}

void Delivery::set_stage(std::int64_t row, DeliveryStage stage, std::optional<std::int64_t> next_at) {
    Query(database_, kSetStage).with(row, static_cast<std::int64_t>(stage), next_at).run();
}

std::int64_t Delivery::enqueue(const LoggedEvent& event, std::int64_t now_ms) {
    std::int64_t matched = 0;
    for (const MatchedRow& row : log_.matching_rows(event, std::nullopt, now_ms)) {
        if (!row.suspended_reason) ++matched;
        if (row.is_single) {
            enqueue_single(row, event, now_ms);
        } else if (row.to_worker && row.handler && !row.suspended_reason) {
            Query(database_, kBroadcast).with(row.handler, row.id, event.seq, now_ms).run();
        }
    }
    return matched;
}

void Delivery::enqueue_single(const MatchedRow& row, const LoggedEvent& event, std::int64_t now_ms) {
    if (row.suspended_reason) {
        if (*row.suspended_reason == kPermissionRevoked) return;
        owe(row.id, event.seq, now_ms);
        cut_backlog(database_, row.id);
        return;
    }
    owe(row.id, event.seq, now_ms);
    const bool is_offered = row.to_socket && has_live_stream(row.account, row.app, now_ms);
    const DeliveryStage stage = is_offered ? DeliveryStage::offered : DeliveryStage::due;
    Query(database_, kOfferIfIdle)
        .with(row.id, static_cast<std::int64_t>(stage), is_offered ? now_ms + kOfferMs : now_ms)
        .run();
}

void Delivery::advance(std::int64_t row, std::int64_t now_ms) {
    std::string account;
    std::optional<std::string> app;
    bool to_socket = false;
    {
        Query query(database_, kPlaceOf);
        query.with(row);
        if (!query.next() || !query.is_null(3)) return;
        account = query.text(0);
        app = query.optional_text(1);
        to_socket = query.integer(2) != 0;
    }
    Query(database_, kResetTries).with(row).run();
    if (!first_owed(database_, row)) {
        set_stage(row, DeliveryStage::idle, std::nullopt);
    } else if (to_socket && has_live_stream(account, app, now_ms)) {
        set_stage(row, DeliveryStage::offered, now_ms + kOfferMs);
    } else {
        set_stage(row, DeliveryStage::due, now_ms);
    }
}

void Delivery::acknowledge(std::int64_t row, const std::string& event_id, std::int64_t now_ms) {
    const std::optional<Owed> owed = first_owed(database_, row);
    const std::optional<LoggedEvent> event = owed ? log_.find(owed->seq) : std::nullopt;
    if (!event || event->uuid != event_id) return;
    Query(database_, kDropOwed).with(owed->id, row).run();
    Query(database_, kClearFailures).with(row).run();
    advance(row, now_ms);
}

std::vector<StreamClaim> Delivery::claim_for_stream(const Caller& scope, const std::string& owner, std::int64_t limit,
                                                    std::int64_t now_ms) {
    std::vector<std::int64_t> rows;
    std::vector<StreamClaim> claims;
    {
        Query query(database_, kClaimable);
        query.with(scope.account, scope.app, kMaxStreamTries, now_ms / 1000, limit);
        while (query.next()) {
            rows.push_back(query.integer(0));
            claims.push_back({query.text(1), query.optional_text(2), {}});
        }
    }
    std::vector<StreamClaim> taken;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::optional<Owed> owed = first_owed(database_, rows[i]);
        std::optional<LoggedEvent> event = owed ? log_.find(owed->seq) : std::nullopt;
        if (!event) {
            if (owed) Query(database_, kDropOwed).with(owed->id, rows[i]).run();
            advance(rows[i], now_ms);
            continue;
        }
        Query(database_, kLease).with(rows[i], now_ms + kLeaseMs, owner).run();
        claims[i].event = std::move(*event);
        taken.push_back(std::move(claims[i]));
    }
    return taken;
}

void Delivery::release_stream(const std::string& owner, std::int64_t now_ms) {
    Query(database_, kRelease).with(owner, now_ms).run();
}

bool Delivery::resolve_streams(std::int64_t now_ms) {
    struct RunOut {
        std::int64_t row;
        bool is_offered_again;
    };
    std::vector<RunOut> rows;
    {
        Query query(database_, kRunOut);
        query.with(now_ms, kResolveStep);
        while (query.next()) {
            // An offer that nobody took in time has had its chance; a lease that ran out may have another.
            const bool was_leased = query.integer(3) == static_cast<std::int64_t>(DeliveryStage::leased);
            const bool may_try = was_leased && query.integer(4) < kMaxStreamTries;
            rows.push_back(
                {query.integer(0), may_try && has_live_stream(query.text(1), query.optional_text(2), now_ms)});
        }
    }
    for (const RunOut& row : rows) {
        const DeliveryStage stage = row.is_offered_again ? DeliveryStage::offered : DeliveryStage::due;
        set_stage(row.row, stage, row.is_offered_again ? now_ms + kOfferMs : now_ms);
    }
    return !rows.empty();
}

std::optional<HandlerCall> Delivery::make_call(std::int64_t row, std::int64_t delivery, const LoggedEvent& event) {
    Query query(database_, kCallData);
    query.with(row);
    if (!query.next()) return std::nullopt;
    HandlerCall call;
    call.row = row;
    call.delivery = delivery;
    call.handler = query.text(1);
    call.webhook_id = "msg_" + event.uuid + '_' + std::to_string(row);
    call.body = handler_body(call.handler, event, query.text(0), query.optional_text(2));
    call.is_gap = event.is_gap();
    return call;
}

std::vector<HandlerCall> Delivery::claim_singles(const std::string& handler, std::int64_t limit,
                                                 const std::set<std::int64_t>& busy, std::int64_t now_ms) {
    std::vector<std::int64_t> rows;
    {
        Query query(database_, kDue);
        query.with(handler, now_ms, now_ms / 1000, limit + static_cast<std::int64_t>(busy.size()));
        while (query.next() && static_cast<std::int64_t>(rows.size()) < limit) {
            if (busy.count(query.integer(0)) == 0) rows.push_back(query.integer(0));
        }
    }
    std::vector<HandlerCall> calls;
    for (const std::int64_t row : rows) {
        const std::optional<Owed> owed = first_owed(database_, row);
        const std::optional<LoggedEvent> event = owed ? log_.find(owed->seq) : std::nullopt;
        std::optional<HandlerCall> call = event ? make_call(row, owed->id, *event) : std::nullopt;
        if (!call) {
            if (owed) Query(database_, kDropOwed).with(owed->id, row).run();
            advance(row, now_ms);
            continue;
        }
        set_stage(row, DeliveryStage::calling, std::nullopt);
        calls.push_back(std::move(*call));
    }
    return calls;
}

std::vector<HandlerCall> Delivery::claim_broadcasts(const std::string& handler, std::int64_t limit,
                                                    std::int64_t now_ms) {
    struct Claimed {
        std::int64_t id, row, seq;
    };
    std::vector<Claimed> claimed;
    Query(database_, kDropStaleBroadcasts).with(handler, now_ms - kBroadcastMs).run();
    {
        Query query(database_, kBroadcasts);
        query.with(handler, limit, now_ms / 1000);
        while (query.next()) claimed.push_back({query.integer(0), query.integer(1), query.integer(2)});
    }
    std::vector<HandlerCall> calls;
    for (const Claimed& one : claimed) {
        // Gone before it is sent: a broadcast is never sent twice.
        Query(database_, kDropBroadcast).with(one.id).run();
        const std::optional<LoggedEvent> event = log_.find(one.seq);
        std::optional<HandlerCall> call = event ? make_call(one.row, 0, *event) : std::nullopt;
        if (call) calls.push_back(std::move(*call));
    }
    return calls;
}

void Delivery::finish(const HandlerCall& call, const CallResult& result, std::int64_t now_ms) {
    switch (result.kind) {
        case CallResult::Kind::failed: fail(call, result, now_ms); return;
        case CallResult::Kind::rejected: reject(call, now_ms); return;
        case CallResult::Kind::settled: break;
    }
    Query(database_, kClearFailures).with(call.row).run();
    drop_called(call, now_ms);
}

// The row may have moved on during the call: acknowledged late, or suspended and resumed.
void Delivery::drop_called(const HandlerCall& call, std::int64_t now_ms) {
    if (call.delivery == 0) return;
    Query(database_, kDropOwed).with(call.delivery, call.row).run();
    bool is_calling = false;
    {
        Query query(database_, kIsCalling);
        query.with(call.row);
        is_calling = query.next();
    }
    if (is_calling) advance(call.row, now_ms);
}

void Delivery::fail(const HandlerCall& call, const CallResult& result, std::int64_t now_ms) {
    if (call.delivery != 0) {
        std::int64_t attempts = 0;
        {
            Query query(database_, kAttempts);
            query.with(call.row);
            attempts = first_integer(query).value_or(0) + 1;
        }
        if (call.is_gap && attempts >= kMaxGapTries) {
            drop_called(call, now_ms);
        } else {
            const std::int64_t delay = std::max(backoff_ms(attempts), result.retry_after_ms);
            Query(database_, kRetry).with(call.row, now_ms + delay).run();
        }
    }
    if (!call.is_gap) count_failure(call.row, now_ms);
}

void Delivery::reject(const HandlerCall& call, std::int64_t now_ms) {
    if (!call.is_gap) leave_gap(call, now_ms);
    drop_called(call, now_ms);
    if (!call.is_gap) count_failure(call.row, now_ms);
}

void Delivery::leave_gap(const HandlerCall& call, std::int64_t now_ms) {
    bool is_suspended = false;
    {
        Query row(database_, kPlaceOf);
        row.with(call.row);
        if (!row.next() || row.text(3) == kPermissionRevoked) return;
        is_suspended = !row.is_null(3);
    }
    const std::int64_t seq = log_.append_gap(call.row, "handler_rejected", now_ms);
    if (call.delivery != 0) {
        owe(call.row, seq, now_ms);
    } else if (!is_suspended) {
        Query(database_, kBroadcast).with(call.handler, call.row, seq, now_ms).run();
    }
}

void Delivery::count_failure(std::int64_t row, std::int64_t now_ms) {
    Query(database_, kCountFailure).with(row).run();
    std::optional<std::int64_t> failures;
    {
        Query query(database_, kFailureRun);
        query.with(row);
        failures = first_integer(query);
    }
    if (failures && *failures >= kMaxFailures) suspend_row(database_, row, kFailures, now_ms);
}

void Delivery::reclaim_calls(std::int64_t now_ms) { Query(database_, kReclaim).with(now_ms).run(); }

std::optional<std::int64_t> Delivery::next_offer_at() {
    Query query(database_, kNextOffer);
    return first_integer(query);
}

std::optional<std::int64_t> Delivery::next_due_at(const std::string& handler, std::int64_t now_ms) {
    Query query(database_, kNextDue);
    query.with(handler, now_ms / 1000);
    return first_integer(query);
}

void Delivery::add_live_scope(const std::string& owner, const Caller& scope) {
    Query(database_, kAddScope).with(scope.account, scope.app.value_or(""), owner).run();
}

void Delivery::remove_live_scope(const std::string& owner, const Caller& scope) {
    Query(database_, kRemoveScope).with(scope.account, scope.app.value_or(""), owner).run();
}

void Delivery::keep_owner_alive(const std::string& owner, std::int64_t until_ms) {
    Query(database_, kKeepAlive).with(owner, until_ms).run();
}

void Delivery::forget_owner(const std::string& owner) {
    Query(database_, kForgetScopes).with(owner).run();
    Query(database_, kForgetOwner).with(owner).run();
}

}  // namespace durable
