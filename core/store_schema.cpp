// SPDX-License-Identifier: BSD-2-Clause
#include "core/store_schema.h"

namespace durable {
namespace {

// Times: *_at of subscriptions are unix seconds, `next_at`, `at`, `ts` and `alive_until` are milliseconds.
// `stage` is delivery's: see DeliveryStage. `token` is match_token(). events.name is its kind (t, f, g for a gap) and
// its name; events.only_sub addresses a gap to one row. prefix_lengths counts the topic prefixes of each length, so
// that a publish looks up those lengths only.
constexpr char kTables[] = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES('log_floor', 0), ('generation', 0), ('handlers', '');

CREATE TABLE subscriptions(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sub_id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    app TEXT,
    subject TEXT NOT NULL,
    token TEXT NOT NULL,
    is_single INTEGER NOT NULL,
    targets TEXT NOT NULL,
    to_socket INTEGER NOT NULL,
    to_worker INTEGER NOT NULL,
    handler TEXT,
    context TEXT,
    created_at INTEGER NOT NULL,
    created_seq INTEGER NOT NULL,
    expires_at INTEGER,
    suspended_at INTEGER,
    suspended_reason TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    stage INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    stream_tries INTEGER NOT NULL DEFAULT 0,
    lease_owner TEXT);
CREATE INDEX subscriptions_by_account ON subscriptions(account, id);
CREATE INDEX subscriptions_by_app ON subscriptions(account, app, id);
CREATE INDEX subscriptions_by_token ON subscriptions(token, account);
CREATE INDEX subscriptions_by_handler ON subscriptions(handler, suspended_reason) WHERE handler IS NOT NULL;
CREATE INDEX subscriptions_due ON subscriptions(handler, next_at) WHERE stage = 3;
CREATE INDEX subscriptions_offered ON subscriptions(next_at) WHERE stage IN (1, 2);
CREATE INDEX subscriptions_claimable ON subscriptions(account, next_at) WHERE stage = 1;
CREATE INDEX subscriptions_calling ON subscriptions(id) WHERE stage = 4;
CREATE INDEX subscriptions_leased ON subscriptions(lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX subscriptions_expiring ON subscriptions(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX subscriptions_suspended ON subscriptions(suspended_at) WHERE suspended_at IS NOT NULL;

CREATE TABLE prefix_lengths(length INTEGER PRIMARY KEY, subscriptions INTEGER NOT NULL);
CREATE TRIGGER prefix_added AFTER INSERT ON subscriptions WHEN substr(new.token, 1, 1) = 'p' BEGIN
    INSERT INTO prefix_lengths VALUES(length(CAST(new.token AS BLOB)) - 1, 1)
        ON CONFLICT(length) DO UPDATE SET subscriptions = subscriptions + 1;
END;
CREATE TRIGGER prefix_removed AFTER DELETE ON subscriptions WHEN substr(old.token, 1, 1) = 'p' BEGIN
    UPDATE prefix_lengths SET subscriptions = subscriptions - 1
        WHERE length = length(CAST(old.token AS BLOB)) - 1;
    DELETE FROM prefix_lengths WHERE length = length(CAST(old.token AS BLOB)) - 1 AND subscriptions <= 0;
END;

CREATE TABLE events(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    from_name TEXT,
    op TEXT,
    account TEXT,
    publisher TEXT,
    data TEXT,
    ts INTEGER NOT NULL,
    only_sub INTEGER,
    reason TEXT);
CREATE INDEX events_by_name ON events(name, seq);
CREATE INDEX events_by_from ON events(from_name, seq) WHERE from_name IS NOT NULL;

CREATE TABLE deliveries(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sub INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL);
CREATE INDEX deliveries_by_sub ON deliveries(sub, id);
CREATE INDEX deliveries_by_seq ON deliveries(seq);

CREATE TABLE broadcasts(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    handler TEXT NOT NULL,
    sub INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL);
CREATE INDEX broadcasts_by_handler ON broadcasts(handler, id);
CREATE INDEX broadcasts_by_sub ON broadcasts(sub);
CREATE INDEX broadcasts_by_seq ON broadcasts(seq);
CREATE TRIGGER owed_removed AFTER DELETE ON subscriptions BEGIN
    DELETE FROM deliveries WHERE sub = old.id;
    DELETE FROM broadcasts WHERE sub = old.id;
END;

CREATE TABLE handlers(name TEXT PRIMARY KEY, definition TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE live_owners(owner TEXT PRIMARY KEY, alive_until INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE live_scopes(
    account TEXT NOT NULL,
    app TEXT NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY(account, app, owner)) WITHOUT ROWID;

PRAGMA user_version = 1;
)";

int user_version(Database& database) {
    Query query(database, "PRAGMA user_version");
    return query.next() ? static_cast<int>(query.integer(0)) : -1;
}

bool has_tables(Database& database) {
    Query query(database, "SELECT 1 FROM sqlite_schema LIMIT 1");
    return query.next();
}

bool migrate(Database& database) {
    if (!database.run("BEGIN IMMEDIATE")) return false;
    const int version = user_version(database);
    if (version > kSchemaVersion) {
        database.fail(SQLITE_ERROR, "the file is of version " + std::to_string(version) +
                                        ", newer than this module's " + std::to_string(kSchemaVersion));
    } else if (version == 0 && has_tables(database)) {
        database.fail(SQLITE_ERROR, "the file is an SQLite database of something else");
    } else if (version == 0) {
        database.run(kTables);
    }
    if (database.has_failed()) {
        sqlite3_exec(database.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
        return false;
    }
    return database.run("COMMIT");
}

}  // namespace

bool open_store(Database& database, const std::string& path) {
    if (!database.open(path)) return false;
    // 16 MiB of page cache; the journal is cut back after a burst.
    const bool is_ready = database.run(
                              "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                              "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;"
                              "PRAGMA journal_size_limit = 67108864; PRAGMA trusted_schema = OFF;") &&
                          migrate(database);
    if (!is_ready) database.close();
    return is_ready;
}

}  // namespace durable
