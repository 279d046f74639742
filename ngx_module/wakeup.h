// SPDX-License-Identifier: BSD-2-Clause
// How workers wake each other: a datagram of one byte to an abstract Unix socket that each binds
// for itself. It carries nothing and may be lost or doubled.
#pragma once

#include "core/zone.h"
#include "ngx_module/nginx.h"

namespace durable {

class Worker;

class Wakeup {
public:
    explicit Wakeup(Worker& worker) noexcept : worker_(worker) {}

    [[nodiscard]] bool open(ngx_log_t* log) noexcept;
    void close() noexcept;
    bool is_open() const noexcept { return connection_ != nullptr; }

    // The socket's name, as in sun_path.
    std::string_view address() const noexcept { return {address_, address_size_}; }

    void send(const WakeList& wakes) noexcept;

private:
    static void on_readable(ngx_event_t* event) noexcept;
    static void on_posted(ngx_event_t* event) noexcept;

    Worker& worker_;
    ngx_connection_t* connection_ = nullptr;
    ngx_event_t posted_{};  // this worker wakes itself without a system call
    char address_[14] = {};
    std::size_t address_size_ = 0;
};

}  // namespace durable
