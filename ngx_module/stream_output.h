// SPDX-License-Identifier: BSD-2-Clause
// What every stream does with its connection: a text through nginx's filters, and the write timer. While
// a stream is idle that timer is its ping, which holds no worker that is to quit; while bytes wait for
// the socket it is send_timeout, counted from the last progress. A delay by limit_rate has it for itself.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Makes `buffer` the bytes of `text`, to be flushed; both stay until nothing is left of them.
void wrap_text(ngx_buf_t& buffer, std::string& text) noexcept;

// Whether something of it, or behind it, has not reached the socket yet.
[[nodiscard]] bool is_output_left(const ngx_http_request_t* r, const ngx_buf_t& buffer) noexcept;

// Bytes were taken while others waited.
void restart_send_timeout(ngx_connection_t* c) noexcept;

// False when nginx cannot watch the socket.
[[nodiscard]] bool wait_for_socket(ngx_connection_t* c, ngx_msec_t send_timeout) noexcept;

// Nothing where `ping` is 0.
void arm_ping(ngx_connection_t* c, ngx_msec_t ping, ngx_msec_t after) noexcept;

}  // namespace durable
