// SPDX-License-Identifier: BSD-2-Clause
#include "core/event_log.h"

#include <algorithm>

#include "core/digest.h"

namespace durable {
namespace {

constexpr std::int64_t kTrimStep = 2000;
// A page is first looked for by walking the log this far; only a subject that is rare there is looked up by name.
constexpr std::int64_t kWalk = 2000;

#define DURABLE_EVENT_COLUMNS "seq, uuid, name, from_name, op, account, publisher, data, ts, only_sub, reason"

constexpr char kAppend[] =
    "INSERT INTO events(uuid, name, from_name, op, account, publisher, data, ts)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
constexpr char kAppendGap[] =
    "INSERT INTO events(uuid, name, op, account, ts, only_sub, reason)"
    " SELECT ?2, 'g' || subject, 'gap', account, ?4, id, ?3 FROM subscriptions WHERE id = ?1";
constexpr char kPrefixLengths[] = "SELECT length FROM prefix_lengths";
#define DURABLE_MATCH_COLUMNS                                                                              \
    "SELECT id, sub_id, account, app, is_single, to_socket, to_worker, handler, suspended_reason, subject" \
    " FROM subscriptions WHERE "
#define DURABLE_MATCH_TOKEN \
    DURABLE_MATCH_COLUMNS "token = ?1 AND (expires_at IS NULL OR expires_at > ?2) AND created_seq < ?3"
constexpr char kMatchAll[] = DURABLE_MATCH_TOKEN;
constexpr char kMatchAccount[] = DURABLE_MATCH_TOKEN " AND account = ?4";
constexpr char kGapRow[] = DURABLE_MATCH_COLUMNS "id = ?1";
constexpr char kHead[] = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
constexpr char kFloor[] = "SELECT value FROM meta WHERE key = 'log_floor'";
constexpr char kSetFloor[] = "UPDATE meta SET value = ?1 WHERE key = 'log_floor'";
constexpr char kRead[] = "SELECT " DURABLE_EVENT_COLUMNS " FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2";
constexpr char kFind[] = "SELECT " DURABLE_EVENT_COLUMNS " FROM events WHERE seq = ?1";
constexpr char kByName[] = "SELECT " DURABLE_EVENT_COLUMNS " FROM events WHERE name = ?1 AND seq > ?2 ORDER BY seq";
constexpr char kNamesBetween[] = "SELECT seq FROM events WHERE name >= ?1 AND name < ?2 AND seq > ?3";
constexpr char kFromsBetween[] =
    "SELECT seq FROM events WHERE from_name >= ?1 AND from_name < ?2 AND seq > ?3 AND from_name IS NOT NULL";
constexpr char kOldest[] = "SELECT seq, ts FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2";
constexpr char kTrim[] =
    "DELETE FROM events WHERE seq > ?1 AND seq <= ?2"
    " AND NOT EXISTS(SELECT 1 FROM deliveries WHERE deliveries.seq = events.seq)"
    " AND NOT EXISTS(SELECT 1 FROM broadcasts WHERE broadcasts.seq = events.seq)";
#undef DURABLE_MATCH_COLUMNS
#undef DURABLE_MATCH_TOKEN
#undef DURABLE_EVENT_COLUMNS

LoggedEvent read_event(const Query& query) {
    LoggedEvent event;
    event.seq = query.integer(0);
    event.uuid = query.text(1);
    const std::string name = query.text(2);
    event.subject.is_topic = !name.empty() && name[0] == 't';
    event.subject.name = name.substr(std::min<std::size_t>(1, name.size()));
    const std::string from = query.text(3);
    event.subject.from = from.substr(std::min<std::size_t>(1, from.size()));
    event.subject.op = query.text(4);
    event.account = query.optional_text(5);
    event.publisher = query.optional_text(6);
    event.data = query.optional_text(7);
    event.ts = query.integer(8);
    event.only_sub = query.optional_integer(9);
    event.reason = query.text(10);
    return event;
}

MatchedRow read_matched_row(const Query& query) {
    MatchedRow row;
    row.id = query.integer(0);
    row.sub_id = query.text(1);
    row.account = query.text(2);
    row.app = query.optional_text(3);
    row.is_single = query.integer(4) != 0;
    row.to_socket = query.integer(5) != 0;
    row.to_worker = query.integer(6) != 0;
    row.handler = query.optional_text(7);
    row.suspended_reason = query.optional_text(8);
    return row;
}

std::string stored_name(const EventSubject& subject, const std::string& name) {
    return (subject.is_topic ? 't' : 'f') + name;
}

// The smallest text greater than every text that begins with `start`, which never ends in 0xFF: it is UTF-8.
std::string end_of_prefix(std::string start) {
    start.back() = static_cast<char>(static_cast<unsigned char>(start.back()) + 1);
    return start;
}

std::optional<std::string> unless_empty(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

void EventLog::append(LoggedEvent& event, std::int64_t now_ms) {
    event.uuid = uuid_v4();
    event.ts = now_ms;
    const std::optional<std::string> from =
        event.subject.from.empty() ? std::nullopt : std::optional(stored_name(event.subject, event.subject.from));
    Query(database_, kAppend)
        .with(event.uuid, stored_name(event.subject, event.subject.name), from, unless_empty(event.subject.op),
              event.account, event.publisher, event.data, event.ts)
        .run();
    event.seq = database_.last_row_id();
}

std::int64_t EventLog::append_gap(std::int64_t row, const char* reason, std::int64_t now_ms) {
    Query(database_, kAppendGap).with(row, uuid_v4(), reason, now_ms).run();
    return database_.last_row_id();
}

std::vector<std::size_t> EventLog::prefix_lengths() {
    std::vector<std::size_t> lengths;
    Query query(database_, kPrefixLengths);
    while (query.next()) lengths.push_back(static_cast<std::size_t>(query.integer(0)));
    return lengths;
}

void EventLog::add_matches(const std::string& token, const LoggedEvent& event,
                           const std::optional<std::string>& account, std::int64_t now_ms,
                           std::vector<MatchedRow>& rows) {
    Query query(database_, account ? kMatchAccount : kMatchAll);
    query.with(token, now_ms / 1000, event.seq);
    if (account) query.with(token, now_ms / 1000, event.seq, account);
    while (query.next()) {
        if (matches(parse_subject(query.text(9)).subject, event.subject)) rows.push_back(read_matched_row(query));
    }
}

std::vector<MatchedRow> EventLog::rows_of_gap(const LoggedEvent& event) {
    Query query(database_, kGapRow);
    query.with(event.only_sub);
    if (!query.next()) return {};
    return {read_matched_row(query)};
}

std::vector<MatchedRow> EventLog::matching_rows(const LoggedEvent& event, const std::optional<std::string>& account,
                                                std::int64_t now_ms) {
    std::vector<MatchedRow> rows;
    if (event.account && account && *event.account != *account) return rows;
    if (event.is_gap()) return rows_of_gap(event);
    const std::optional<std::string>& reached = account ? account : event.account;
    const auto lengths = event.subject.is_topic ? prefix_lengths() : std::vector<std::size_t>();
    for (const std::string& token : match_tokens(event.subject, lengths)) {
        add_matches(token, event, reached, now_ms, rows);
    }
    return rows;
}

std::int64_t EventLog::head() {
    Query query(database_, kHead);
    return query.next() ? query.integer(0) : 0;
}

std::int64_t EventLog::floor() {
    Query query(database_, kFloor);
    return query.next() ? query.integer(0) : 0;
}

std::vector<LoggedEvent> EventLog::read(std::int64_t after, std::int64_t limit) {
    std::vector<LoggedEvent> events;
    Query query(database_, kRead);
    query.with(after, limit);
    while (query.next()) events.push_back(read_event(query));
    return events;
}

std::optional<LoggedEvent> EventLog::find(std::int64_t seq) {
    Query query(database_, kFind);
    query.with(seq);
    return query.next() ? std::optional(read_event(query)) : std::nullopt;
}

bool EventLog::is_wanted(const LoggedEvent& event, const Subject& subject, const std::string& account) const {
    return !event.is_gap() && (!event.account || *event.account == account) && matches(subject, event.subject);
}

// The positions of all events below a name, in order; for a path both where something is and where it came from.
std::vector<std::int64_t> EventLog::positions(const Subject& subject, std::int64_t after) {
    std::vector<std::int64_t> found;
    const auto add = [&](const char* sql, const std::string& first, const std::string& end) {
        Query query(database_, sql);
        query.with(first, end, after);
        while (query.next()) found.push_back(query.integer(0));
    };
    const std::string start = (subject.is_topic() ? 't' : 'f') + subject.name;
    if (subject.is_topic()) {
        add(kNamesBetween, start, end_of_prefix(start));
    } else {
        const std::string below = subject.name == "/" ? start : start + '/';
        for (const char* sql : {kNamesBetween, kFromsBetween}) {
            if (below != start) add(sql, start, start + '\x01');  // no name holds control characters
            add(sql, below, end_of_prefix(below));
        }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
}

EventLog::Page EventLog::fetch(const Subject& subject, const std::string& account, std::int64_t after,
                               std::int64_t limit) {
    Page page;
    const std::int64_t start = std::max(after, floor());
    const auto take = [&](LoggedEvent&& event) {
        if (!is_wanted(event, subject, account)) return true;
        page.has_more = static_cast<std::int64_t>(page.events.size()) == limit;
        if (!page.has_more) page.events.push_back(std::move(event));
        return !page.has_more;
    };
    std::int64_t walked = start;
    std::int64_t count = 0;
    {
        Query query(database_, kRead);
        query.with(start, kWalk);
        for (; query.next(); ++count) {
            walked = query.integer(0);
            if (!take(read_event(query))) return page;
        }
    }
    if (count < kWalk) return page;
    if (subject.kind == SubjectKind::exact) {
        Query query(database_, kByName);
        query.with('t' + subject.name, walked);
        while (query.next()) {
            if (!take(read_event(query))) return page;
        }
        return page;
    }
    for (const std::int64_t seq : positions(subject, walked)) {
        std::optional<LoggedEvent> event = find(seq);
        if (event && !take(std::move(*event))) return page;
    }
    return page;
}

bool EventLog::needs_trim(const Retention& retention, std::int64_t now_ms) {
    const std::int64_t last_surplus = head() - retention.events;
    Query query(database_, kOldest);
    query.with(floor(), 1);
    return query.next() && (query.integer(0) <= last_surplus || query.integer(1) < now_ms - retention.age_ms);
}

void EventLog::trim(const Retention& retention, std::int64_t now_ms) {
    const std::int64_t old_floor = floor();
    const std::int64_t last_surplus = head() - retention.events;
    std::int64_t new_floor = old_floor;
    {
        Query query(database_, kOldest);
        query.with(old_floor, kTrimStep);
        while (query.next()) {
            if (query.integer(0) > last_surplus && query.integer(1) >= now_ms - retention.age_ms) break;
            new_floor = query.integer(0);
        }
    }
    if (new_floor == old_floor) return;
    Query(database_, kTrim).with(old_floor, new_floor).run();
    Query(database_, kSetFloor).with(new_floor).run();
}

void EventLog::drop_spared() { Query(database_, kTrim).with(std::int64_t{0}, floor()).run(); }

}  // namespace durable
