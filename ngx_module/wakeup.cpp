// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/wakeup.h"

#include <sys/un.h>

#include "ngx_module/watched_descriptor.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

// Binds to a name that the kernel chooses. Returns the descriptor, -1 on failure.
int bind_socket(char* address, std::size_t capacity, std::size_t& size) noexcept {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1) return -1;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    socklen_t length = sizeof name;
    if (bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(sa_family_t)) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0) {
        size = length - offsetof(sockaddr_un, sun_path);
        if (size <= capacity) {
            ngx_memcpy(address, name.sun_path, size);
            return fd;
        }
    }
    ::close(fd);
    return -1;
}

}  // namespace

bool Wakeup::open(ngx_log_t* log) noexcept {
    const int fd = bind_socket(address_, sizeof address_, address_size_);
    if (fd == -1) {
        ngx_log_error(NGX_LOG_CRIT, log, ngx_errno, "durable: a wake-up socket cannot be opened");
        return false;
    }
    connection_ = watch_descriptor(fd, on_readable, this, log);
    if (connection_ == nullptr) return false;
    posted_.data = this;
    posted_.log = log;
    posted_.handler = on_posted;
    return true;
}

void Wakeup::close() noexcept {
    if (posted_.posted) {
        ngx_delete_posted_event(&posted_);
    }
    if (connection_ != nullptr) ngx_close_connection(connection_);
    connection_ = nullptr;
}

void Wakeup::send(const WakeList& wakes) noexcept {
    // Not before the other events of this round: what they publish is sent along, and a fan-out that
    // goes on does not starve them.
    if (wakes.self && connection_ != nullptr) {
        ngx_post_event(&posted_, &ngx_posted_next_events);
    }
    for (std::uint16_t i = 0; i < wakes.count; ++i) {
        const WakeList::Target& target = wakes.targets[i];
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        ngx_memcpy(name.sun_path, target.address, target.size);
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + target.size);
        // A failure is mended by the receiver's own look at each tick, or it is dead.
        static_cast<void>(sendto(connection_->fd, "", 1, MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&name), length));
    }
}

void Wakeup::on_readable(ngx_event_t* event) noexcept {
    auto* c = static_cast<ngx_connection_t*>(event->data);
    auto& wakeup = *static_cast<Wakeup*>(c->data);
    if (c->close) {
        c->close = 0;
        c->idle = 0;
        wakeup.worker_.on_quit();
        return;
    }
    char bytes[8];
    while (recv(c->fd, bytes, sizeof bytes, 0) >= 0) {
    }
    wakeup.worker_.on_wakeup();
}

void Wakeup::on_posted(ngx_event_t* event) noexcept { static_cast<Wakeup*>(event->data)->worker_.on_wakeup(); }

}  // namespace durable
