// SPDX-License-Identifier: BSD-2-Clause
#include "core/database.h"

#include <fcntl.h>
#include <unistd.h>

namespace durable {
namespace {

constexpr int kBusySleepMicroseconds = 1000;
constexpr int kMaxBusyTries = 5000;
constexpr int kProgressOperations = 2000;

}  // namespace

bool Database::open(const std::string& path) {
    close();
    clear_error();
    is_durable_ = true;
    // SQLite would create the file readable for all, and contexts may hold secrets. Only a file that is new is opened
    // here: closing another descriptor of a file that SQLite has open would drop its locks.
    const int created = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (created >= 0) ::close(created);
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(path.c_str(), &handle_, kFlags, nullptr);
    if (code != SQLITE_OK) {
        fail(code, handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code));
        close();
        return false;
    }
    sqlite3_busy_handler(handle_, on_busy, this);
    sqlite3_progress_handler(handle_, kProgressOperations, on_progress, this);
    return true;
}

void Database::close() noexcept {
    for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
    statements_.clear();
    if (handle_ != nullptr) sqlite3_close(handle_);
    handle_ = nullptr;
}

bool Database::run(const char* sql) {
    if (has_failed()) return false;
    const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(code, sqlite3_errmsg(handle_));
    return code == SQLITE_OK;
}

bool Database::begin(bool is_durable) {
    if (!is_open() || has_failed()) {
        fail(SQLITE_CANTOPEN, "the store is not open");
        return false;
    }
    if (is_durable != is_durable_ && run(is_durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")) {
        is_durable_ = is_durable;
    }
    return run("BEGIN IMMEDIATE");
}

bool Database::finish() {
    if (run("COMMIT")) return true;
    // Does nothing where SQLite has rolled back by itself.
    sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
    return false;
}

void Database::clear_error() noexcept {
    error_code_ = SQLITE_OK;
    error_text_.clear();
}

void Database::fail(int code, std::string text) {
    if (has_failed()) return;
    error_code_ = code;
    error_text_ = std::move(text);
}

bool Database::must_reopen() const noexcept {
    switch (error_code_ & 0xFF) {
        case SQLITE_IOERR:
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
        case SQLITE_CANTOPEN:
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_MISUSE: return true;
        default: return false;
    }
}

sqlite3_stmt* Database::statement(const char* sql) {
    if (has_failed() || handle_ == nullptr) return nullptr;
    const auto known = statements_.find(sql);
    if (known != statements_.end()) return known->second;
    sqlite3_stmt* prepared = nullptr;
    const int code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
    if (code != SQLITE_OK) {
        fail(code, sqlite3_errmsg(handle_));
        return nullptr;
    }
    statements_.emplace(sql, prepared);
    return prepared;
}

int Database::on_busy(void* database, int tries) noexcept {
    if (static_cast<Database*>(database)->stop_.load(std::memory_order_relaxed) || tries >= kMaxBusyTries) return 0;
    ::usleep(kBusySleepMicroseconds);
    return 1;
}

int Database::on_progress(void* database) noexcept {
    return static_cast<Database*>(database)->stop_.load(std::memory_order_relaxed) ? 1 : 0;
}

Query::Query(Database& database, const char* sql) : database_(database), statement_(database.statement(sql)) {}

Query::~Query() {
    if (statement_ == nullptr) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
}

bool Query::next() {
    if (statement_ == nullptr || database_.has_failed()) return false;
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) database_.fail(code, sqlite3_errmsg(database_.handle()));
    return false;
}

std::string Query::text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes != nullptr ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

std::optional<std::string> Query::optional_text(int column) const {
    return is_null(column) ? std::nullopt : std::optional(text(column));
}

std::optional<std::int64_t> Query::optional_integer(int column) const {
    return is_null(column) ? std::nullopt : std::optional(integer(column));
}

void Query::bind(int index, std::int64_t value) noexcept {
    if (statement_ != nullptr) sqlite3_bind_int64(statement_, index, value);
}

void Query::bind(int index, std::string_view value) noexcept {
    if (statement_ == nullptr) return;
    // A null pointer would be bound as NULL, and an empty view may hold one.
    const char* bytes = value.data() != nullptr ? value.data() : "";
    const int code = sqlite3_bind_text(statement_, index, bytes, static_cast<int>(value.size()), SQLITE_TRANSIENT);
    if (code != SQLITE_OK) database_.fail(code, sqlite3_errstr(code));
}

void Query::bind(int index, std::nullptr_t) noexcept {
    if (statement_ != nullptr) sqlite3_bind_null(statement_, index);
}

}  // namespace durable
