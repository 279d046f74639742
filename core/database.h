// SPDX-License-Identifier: BSD-2-Clause
// A thin layer over one SQLite connection: cached statements, and one error that sticks until it is cleared, so that a
// transaction of many statements is judged once, at its end. One thread at a time.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace durable {

class Database {
public:
    // `stop`, when set by another thread, makes the statement that runs fail within some milliseconds.
    explicit Database(const std::atomic<bool>& stop) noexcept : stop_(stop) {}
    ~Database() { close(); }
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    // Opens or creates (mode 0600) the file. False: see error().
    [[nodiscard]] bool open(const std::string& path);
    void close() noexcept;
    bool is_open() const noexcept { return handle_ != nullptr; }

    // Statements given as text that is run once and returns no rows.
    bool run(const char* sql);

    // See transact().
    [[nodiscard]] bool begin(bool is_durable);
    [[nodiscard]] bool finish();

    bool has_failed() const noexcept { return error_code_ != SQLITE_OK; }
    int error_code() const noexcept { return error_code_; }  // SQLite's extended code
    const std::string& error() const noexcept { return error_text_; }
    void clear_error() noexcept;
    void fail(int code, std::string text);
    // The connection is no good any more: to be closed and opened anew.
    bool must_reopen() const noexcept;

    sqlite3* handle() const noexcept { return handle_; }
    std::int64_t last_row_id() const noexcept { return sqlite3_last_insert_rowid(handle_); }
    std::int64_t changed_rows() const noexcept { return sqlite3_changes64(handle_); }

    // A prepared statement, kept until close. `sql` is a literal: its address is the key. nullptr on failure.
    sqlite3_stmt* statement(const char* sql);

private:
    static int on_busy(void* database, int tries) noexcept;
    static int on_progress(void* database) noexcept;

    const std::atomic<bool>& stop_;
    sqlite3* handle_ = nullptr;
    int error_code_ = SQLITE_OK;
    std::string error_text_;
    bool is_durable_ = true;
    std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

// One use of a cached statement; it is reset at the end of the scope. Does nothing while the database has failed.
class Query {
public:
    Query(Database& database, const char* sql);
    ~Query();
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;

    // Binds the parameters ?1, ?2, … in order.
    template <class... Values>
    Query& with(const Values&... values) {
        int index = 0;
        (bind(++index, values), ...);
        return *this;
    }

    [[nodiscard]] bool next();  // true: there is a row
    bool run() {
        while (next()) {}
        return !database_.has_failed();
    }

    std::int64_t integer(int column) const noexcept { return sqlite3_column_int64(statement_, column); }
    bool is_null(int column) const noexcept { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
    std::string text(int column) const;  // null is empty
    std::optional<std::string> optional_text(int column) const;
    std::optional<std::int64_t> optional_integer(int column) const;

private:
    void bind(int index, std::int64_t value) noexcept;
    void bind(int index, int value) noexcept { bind(index, static_cast<std::int64_t>(value)); }
    void bind(int index, bool value) noexcept { bind(index, static_cast<std::int64_t>(value)); }
    void bind(int index, std::string_view value) noexcept;
    void bind(int index, const std::string& value) noexcept { bind(index, std::string_view(value)); }
    void bind(int index, const char* value) noexcept { bind(index, std::string_view(value)); }
    void bind(int index, std::nullptr_t) noexcept;
    template <class Value>
    void bind(int index, const std::optional<Value>& value) noexcept {
        if (value)
            bind(index, *value);
        else
            bind(index, nullptr);
    }

    Database& database_;
    sqlite3_stmt* statement_;
};

// Runs `body` in one write transaction; `is_durable`: on disk when this returns true. Where it returns false nothing was
// changed, and the database holds the error.
template <class Body>
bool transact(Database& database, bool is_durable, Body&& body) {
    if (!database.begin(is_durable)) return false;
    body();
    return database.finish();
}

}  // namespace durable
