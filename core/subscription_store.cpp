// SPDX-License-Identifier: BSD-2-Clause
#include "core/subscription_store.h"

#include <algorithm>

#include "core/digest.h"

namespace durable {
namespace {

constexpr char kCountAccount[] =
    "SELECT count(*) FROM subscriptions WHERE account = ?1 AND (expires_at IS NULL OR expires_at > ?2)";
constexpr char kCountApp[] =
    "SELECT count(*) FROM subscriptions WHERE account = ?1 AND (expires_at IS NULL OR expires_at > ?2) AND app = ?3";
constexpr char kInsert[] =
    "INSERT INTO subscriptions(sub_id, account, app, subject, token, is_single, targets, to_socket, to_worker,"
    " handler, context, created_at, expires_at, created_seq)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
    " coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0))";
#define DURABLE_ROW_COLUMNS                                                                                 \
    "id, sub_id, app, subject, is_single, targets, handler, context, created_at, expires_at, suspended_at," \
    " suspended_reason"
constexpr char kListAccount[] =
    "SELECT " DURABLE_ROW_COLUMNS
    " FROM subscriptions"
    " WHERE account = ?1 AND id > ?2 AND (expires_at IS NULL OR expires_at > ?3) ORDER BY id LIMIT ?4";
constexpr char kListApp[] =
    "SELECT " DURABLE_ROW_COLUMNS
    " FROM subscriptions"
    " WHERE account = ?1 AND id > ?2 AND (expires_at IS NULL OR expires_at > ?3) AND app = ?5 ORDER BY id LIMIT ?4";
#undef DURABLE_ROW_COLUMNS
constexpr char kFind[] = "SELECT id FROM subscriptions WHERE sub_id = ?1 AND account = ?2 AND (?3 IS NULL OR app = ?3)";
constexpr char kRemove[] = "DELETE FROM subscriptions WHERE id = ?1";

std::string joined(const std::vector<std::string>& targets) {
    std::string text;
    for (const std::string& target : targets) {
        if (!text.empty()) text += ',';
        text += target;
    }
    return text;
}

bool contains(const std::vector<std::string>& targets, const char* wanted) {
    return std::find(targets.begin(), targets.end(), wanted) != targets.end();
}

SubscriptionRow read_row(const Query& query) {
    SubscriptionRow row;
    row.id = query.integer(0);
    row.sub_id = query.text(1);
    row.app = query.optional_text(2);
    row.subject = query.text(3);
    row.is_single = query.integer(4) != 0;
    row.targets = query.text(5);
    row.handler = query.optional_text(6);
    row.context = query.optional_text(7);
    row.created_at = query.integer(8);
    row.expires_at = query.optional_integer(9);
    row.suspended_at = query.optional_integer(10);
    row.suspended_reason = query.optional_text(11);
    return row;
}

std::int64_t count(Database& database, const Caller& caller, bool only_app, std::int64_t now_s) {
    Query query(database, only_app ? kCountApp : kCountAccount);
    if (only_app) {
        query.with(caller.account, now_s, caller.app);
    } else {
        query.with(caller.account, now_s);
    }
    return query.next() ? query.integer(0) : 0;
}

Refusal check_quotas(Database& database, const Caller& caller, const Quotas& quotas, std::int64_t now_s) {
    if (count(database, caller, false, now_s) >= quotas.account_rows) {
        return {ErrorCode::events_subscription_limit, std::to_string(quotas.account_rows) + " an account"};
    }
    if (caller.app && count(database, caller, true, now_s) >= quotas.app_rows) {
        return {ErrorCode::events_subscription_limit, std::to_string(quotas.app_rows) + " an app"};
    }
    return {};
}

}  // namespace

Refusal SubscriptionStore::insert(const Caller& caller, const NewSubscription& wanted, const Quotas& quotas,
                                  std::int64_t now_ms, SubscriptionRow& row) {
    const std::int64_t now_s = now_ms / 1000;
    if (Refusal refusal = check_quotas(database_, caller, quotas, now_s); refusal.is_refused()) return refusal;
    const std::string uuid = uuid_v4();
    if (uuid.empty()) return {ErrorCode::store_failed, "no random bytes"};
    row.sub_id = caller.app.value_or("user") + '#' + uuid;
    row.app = caller.app;
    row.subject = wanted.subject.text;
    row.is_single = wanted.is_single;
    row.targets = joined(wanted.targets);
    row.handler = wanted.handler;
    row.context = wanted.context;
    row.created_at = now_s;
    row.expires_at = wanted.expires_at;
    Query(database_, kInsert)
        .with(row.sub_id, caller.account, row.app, row.subject, match_token(wanted.subject), row.is_single, row.targets,
              contains(wanted.targets, "socket"), contains(wanted.targets, "worker"), row.handler, row.context,
              row.created_at, row.expires_at)
        .run();
    row.id = database_.last_row_id();
    return {};
}

SubscriptionStore::Page SubscriptionStore::list(const Caller& caller, const PageRequest& request, std::int64_t now_ms) {
    const std::int64_t now_s = now_ms / 1000;
    Page page;
    {
        Query query(database_, caller.app ? kListApp : kListAccount);
        query.with(caller.account, request.after, now_s, request.limit + 1);
        if (caller.app) query.with(caller.account, request.after, now_s, request.limit + 1, caller.app);
        while (query.next()) page.rows.push_back(read_row(query));
    }
    if (static_cast<std::int64_t>(page.rows.size()) > request.limit) {
        page.rows.pop_back();
        page.has_more = true;
    }
    if (request.wants_total) page.total = count(database_, caller, caller.app.has_value(), now_s);
    return page;
}

bool SubscriptionStore::remove(const Caller& caller, const std::string& sub_id) {
    const std::optional<std::int64_t> id = find(caller, sub_id);
    if (!id) return false;
    Query(database_, kRemove).with(*id).run();
    return true;
}

std::optional<std::int64_t> SubscriptionStore::find(const Caller& caller, const std::string& sub_id) {
    Query query(database_, kFind);
    query.with(sub_id, caller.account, caller.app);
    return query.next() ? std::optional(query.integer(0)) : std::nullopt;
}

}  // namespace durable
