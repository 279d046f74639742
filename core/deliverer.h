// SPDX-License-Identifier: BSD-2-Clause
// Calls handlers, in one process at a time: the one that holds the lock on the store's lock file, which the kernel
// frees at its death (E-36). Runs on the store thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/delivery.h"
#include "core/store_types.h"
#include "core/webhook.h"

namespace durable {

class Deliverer {
public:
    // `wake` asks for a pump soon; it is called when a call has ended.
    Deliverer(Database& database, Delivery& delivery, const std::vector<HandlerSettings>& handlers,
              std::int64_t calls_per_handler, event_base* base, std::function<void()> wake);

    // Once a second, with the lock file's descriptor: takes, keeps or gives up the lock.
    void tick(int lock_fd, std::int64_t now_ms);
    bool is_active() const noexcept { return is_active_; }

    // Records what the calls that ended came to, and starts those that are due. True: rows have changed.
    bool pump(std::int64_t now_ms);

    // When to pump again at the latest; nullopt: nothing is waiting for a time.
    [[nodiscard]] std::optional<std::int64_t> next_pump_at(std::int64_t now_ms);

    // At start: makes this configuration the store's (E-36's table: rows whose handler is gone, back or changed).
    // Inside the caller's transaction.
    void apply_configuration(std::int64_t now_ms);

private:
    [[nodiscard]] bool is_current();
    [[nodiscard]] std::int64_t generation();
    void take_lock(int lock_fd, std::int64_t now_ms);
    void give_up(int lock_fd);
    [[nodiscard]] std::int64_t free_calls(const std::string& handler) const;
    [[nodiscard]] bool has_work(std::int64_t now_ms);
    void claim(const HandlerSettings& handler, std::int64_t now_ms, std::vector<HandlerCall>& calls);
    void start_calls(std::vector<HandlerCall> calls, std::int64_t now_ms);
    void on_done(const HandlerCall& call, const CallResult& result);

    Database& database_;
    Delivery& delivery_;
    const std::vector<HandlerSettings>& handlers_;
    std::int64_t calls_per_handler_;
    std::function<void()> wake_;
    std::string configuration_;  // digest of the handlers
    bool is_active_ = false;
    bool is_leaving_ = false;      // a newer configuration is there: no new calls
    std::int64_t generation_ = 0;  // of the store's configuration when the lock was taken
    int free_ticks_ = 0;
    std::map<std::string, std::int64_t> running_;  // calls by handler
    std::set<std::int64_t> busy_rows_;             // `single` rows that are being called for
    std::vector<std::pair<HandlerCall, CallResult>> ended_;
    Webhooks webhooks_;  // last: its destructor drops the calls
};

}  // namespace durable
