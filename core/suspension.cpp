// SPDX-License-Identifier: BSD-2-Clause
#include "core/suspension.h"

#include <algorithm>
#include <string>

#include "core/digest.h"

namespace durable {
namespace {

constexpr std::int64_t kSweepStep = 1000;
constexpr std::int64_t kSuspendedRowS = 30 * 86400;
constexpr std::int64_t kBacklogMs = 86400000;
constexpr std::int64_t kNoCreditBacklogMs = 3600000;

constexpr char kSuspend[] =
    "UPDATE subscriptions SET suspended_at = ?2, suspended_reason = ?3, stage = 0, next_at = NULL, lease_owner = NULL,"
    " attempts = 0, stream_tries = 0 WHERE id = ?1";
constexpr char kDropBroadcasts[] = "DELETE FROM broadcasts WHERE sub = ?1";
constexpr char kDropAll[] = "DELETE FROM deliveries WHERE sub = ?1";
constexpr char kCut[] =
    "DELETE FROM deliveries WHERE sub = ?1 AND id <="
    " (SELECT id FROM deliveries WHERE sub = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
constexpr char kDropOld[] = "DELETE FROM deliveries WHERE sub = ?1 AND at <= ?2";
constexpr char kToSuspend[] =
    "SELECT id FROM subscriptions WHERE account = ?1 AND (?2 IS NULL OR app = ?2)"
    " AND substr(subject, 1, length(?3)) = ?3"
    " AND (suspended_reason IS NULL OR (?4 = 'permission_revoked' AND suspended_reason <> ?4))";
constexpr char kToResume[] =
    "SELECT id, suspended_reason FROM subscriptions WHERE account = ?1 AND (?2 IS NULL OR app = ?2)"
    " AND substr(subject, 1, length(?3)) = ?3"
    " AND suspended_reason IN ('failures', 'no_credit') AND (?4 = '' OR suspended_reason = ?4)"
    " AND (handler IS NULL OR EXISTS(SELECT 1 FROM handlers WHERE name = handler))";
constexpr char kResume[] =
    "UPDATE subscriptions SET suspended_at = NULL, suspended_reason = NULL, failures = 0 WHERE id = ?1";
constexpr char kKnownHandlers[] = "SELECT name, definition FROM handlers";
constexpr char kForgetHandlers[] = "DELETE FROM handlers";
constexpr char kAddHandler[] = "INSERT OR REPLACE INTO handlers VALUES(?1, ?2)";
constexpr char kOrphans[] =
    "SELECT id FROM subscriptions WHERE handler IS NOT NULL AND suspended_reason IS NULL"
    " AND NOT EXISTS(SELECT 1 FROM handlers WHERE name = handler)";
constexpr char kSuspendedOf[] =
    "SELECT id, suspended_reason FROM subscriptions WHERE handler = ?1 AND suspended_reason = ?2"
    " AND handler IS NOT NULL";
constexpr char kDropExpired[] =
    "DELETE FROM subscriptions WHERE id IN"
    " (SELECT id FROM subscriptions WHERE expires_at IS NOT NULL AND expires_at <= ?1 LIMIT ?2)";
constexpr char kDropSuspended[] =
    "DELETE FROM subscriptions WHERE id IN"
    " (SELECT id FROM subscriptions WHERE suspended_at IS NOT NULL AND suspended_at <= ?1 LIMIT ?2)";
constexpr char kDropOldBacklog[] =
    "DELETE FROM deliveries WHERE id IN (SELECT d.id FROM subscriptions s JOIN deliveries d ON d.sub = s.id"
    " WHERE s.suspended_at IS NOT NULL"
    " AND d.at <= CASE s.suspended_reason WHEN 'no_credit' THEN ?1 ELSE ?2 END LIMIT ?3)";
constexpr char kDropDeadScopes[] =
    "DELETE FROM live_scopes WHERE owner NOT IN (SELECT owner FROM live_owners WHERE alive_until > ?1)";
constexpr char kDropDeadOwners[] = "DELETE FROM live_owners WHERE alive_until <= ?1";

struct SuspendedRow {
    std::int64_t id;
    std::string reason;
};

// What the handler is, as one text without its secret: a change of any part brings failed rows back.
std::string definition_of(const HandlerSettings& handler) {
    return sha256_hex(handler.url + '\n' + std::to_string(handler.timeout_ms) + '\n' + handler.secret);
}

void resume_row(Database& database, Delivery& delivery, const SuspendedRow& row, std::int64_t now_ms) {
    const std::int64_t kept_ms = row.reason == kNoCredit ? kNoCreditBacklogMs : kBacklogMs;
    Query(database, kDropOld).with(row.id, now_ms - kept_ms).run();
    Query(database, kResume).with(row.id).run();
    delivery.advance(row.id, now_ms);
}

std::int64_t resume_all(Database& database, Delivery& delivery, const std::vector<SuspendedRow>& rows,
                        std::int64_t now_ms) {
    for (const SuspendedRow& row : rows) resume_row(database, delivery, row, now_ms);
    return static_cast<std::int64_t>(rows.size());
}

std::vector<SuspendedRow> suspended_rows(Query& query) {
    std::vector<SuspendedRow> rows;
    while (query.next()) rows.push_back({query.integer(0), query.text(1)});
    return rows;
}

std::int64_t resume_rows_of(Database& database, Delivery& delivery, const std::string& handler, std::string_view reason,
                            std::int64_t now_ms) {
    std::vector<SuspendedRow> rows;
    {
        Query query(database, kSuspendedOf);
        rows = suspended_rows(query.with(handler, reason));
    }
    return resume_all(database, delivery, rows, now_ms);
}

}  // namespace

void cut_backlog(Database& database, std::int64_t row) { Query(database, kCut).with(row, kMaxSuspendedBacklog).run(); }

void suspend_row(Database& database, std::int64_t row, std::string_view reason, std::int64_t now_ms) {
    Query(database, kSuspend).with(row, now_ms / 1000, reason).run();
    Query(database, kDropBroadcasts).with(row).run();
    if (reason == kPermissionRevoked) {
        Query(database, kDropAll).with(row).run();
    } else {
        cut_backlog(database, row);
    }
}

std::int64_t suspend_rows(Database& database, const SuspensionRequest& request, std::int64_t now_ms) {
    std::vector<std::int64_t> rows;
    {
        Query query(database, kToSuspend);
        query.with(request.account, request.app, request.subject_prefix, request.reason);
        while (query.next()) rows.push_back(query.integer(0));
    }
    for (const std::int64_t row : rows) suspend_row(database, row, request.reason, now_ms);
    return static_cast<std::int64_t>(rows.size());
}

std::int64_t resume_rows(Database& database, Delivery& delivery, const SuspensionRequest& request,
                         std::int64_t now_ms) {
    std::vector<SuspendedRow> rows;
    {
        Query query(database, kToResume);
        rows = suspended_rows(query.with(request.account, request.app, request.subject_prefix, request.reason));
    }
    return resume_all(database, delivery, rows, now_ms);
}

std::int64_t apply_handlers(Database& database, Delivery& delivery, const std::vector<HandlerSettings>& handlers,
                            std::int64_t now_ms) {
    std::vector<std::pair<std::string, std::string>> known;
    {
        Query query(database, kKnownHandlers);
        while (query.next()) known.emplace_back(query.text(0), query.text(1));
    }
    Query(database, kForgetHandlers).run();
    for (const HandlerSettings& handler : handlers) {
        Query(database, kAddHandler).with(handler.name, definition_of(handler)).run();
    }
    std::vector<std::int64_t> orphans;
    {
        Query query(database, kOrphans);
        while (query.next()) orphans.push_back(query.integer(0));
    }
    for (const std::int64_t row : orphans) suspend_row(database, row, kHandlerNotFound, now_ms);
    auto changed = static_cast<std::int64_t>(orphans.size());
    for (const HandlerSettings& handler : handlers) {
        changed += resume_rows_of(database, delivery, handler.name, kHandlerNotFound, now_ms);
        const auto old =
            std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == handler.name; });
        if (old == known.end() || old->second != definition_of(handler)) {
            changed += resume_rows_of(database, delivery, handler.name, kFailures, now_ms);
        }
    }
    return changed;
}

bool sweep(Database& database, std::int64_t now_ms) {
    const std::int64_t now_s = now_ms / 1000;
    std::int64_t most = 0;
    const auto drop = [&](Query& query) {
        query.run();
        most = std::max(most, database.changed_rows());
    };
    {
        Query query(database, kDropExpired);
        drop(query.with(now_s, kSweepStep));
    }
    {
        Query query(database, kDropSuspended);
        drop(query.with(now_s - kSuspendedRowS, kSweepStep));
    }
    {
        Query query(database, kDropOldBacklog);
        drop(query.with(now_ms - kNoCreditBacklogMs, now_ms - kBacklogMs, kSweepStep));
    }
    Query(database, kDropDeadScopes).with(now_ms - 60000).run();
    Query(database, kDropDeadOwners).with(now_ms - 60000).run();
    return most >= kSweepStep;
}

}  // namespace durable
