// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/stream_output.h"

namespace durable {

void wrap_text(ngx_buf_t& buffer, std::string& text) noexcept {
    auto* start = reinterpret_cast<u_char*>(&text[0]);
    buffer = ngx_buf_t();
    buffer.start = buffer.pos = start;
    buffer.end = buffer.last = start + text.size();
    buffer.tag = &ngx_http_durable_module;
    buffer.temporary = 1;
    buffer.flush = 1;
}

// TLS takes bytes into a buffer of its own before the socket does.
bool is_output_left(const ngx_http_request_t* r, const ngx_buf_t& buffer) noexcept {
    return ngx_buf_size(&buffer) != 0 || r->out != nullptr || (r->connection->buffered & NGX_LOWLEVEL_BUFFERED) != 0;
}

void restart_send_timeout(ngx_connection_t* c) noexcept {
    ngx_event_t* wev = c->write;
    if (wev->timer_set && !wev->cancelable && !wev->delayed) ngx_del_timer(wev);
}

bool wait_for_socket(ngx_connection_t* c, ngx_msec_t send_timeout) noexcept {
    ngx_event_t* wev = c->write;
    if (!wev->delayed && (!wev->timer_set || wev->cancelable)) {
        if (wev->timer_set) ngx_del_timer(wev);
        ngx_add_timer(wev, send_timeout);
    }
    wev->cancelable = 0;
    return ngx_handle_write_event(wev, 0) == NGX_OK;
}

void arm_ping(ngx_connection_t* c, ngx_msec_t ping, ngx_msec_t after) noexcept {
    ngx_event_t* wev = c->write;
    if (wev->delayed) return;
    if (wev->timer_set) ngx_del_timer(wev);
    if (ping == 0) return;
    wev->cancelable = 1;
    ngx_add_timer(wev, after);
}

}  // namespace durable
