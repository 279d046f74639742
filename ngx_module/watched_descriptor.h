// SPDX-License-Identifier: BSD-2-Clause
// A descriptor of the worker's own in nginx's event loop.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Takes `fd` over, and calls `handler` when it can be read; also, with `close` set in its connection, when
// the worker is to quit. On failure the descriptor is closed, and nullptr returned.
inline ngx_connection_t* watch_descriptor(int fd, ngx_event_handler_pt handler, void* data, ngx_log_t* log) noexcept {
    ngx_connection_t* c = ngx_get_connection(fd, log);
    if (c == nullptr) {
        ::close(fd);
        return nullptr;
    }
    c->data = data;
    c->idle = 1;  // among those whose handler nginx calls with c->close
    c->log = c->read->log = c->write->log = log;
    c->read->handler = handler;
    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_CLEAR_EVENT) == NGX_OK) return c;
    ngx_close_connection(c);
    return nullptr;
}

}  // namespace durable
