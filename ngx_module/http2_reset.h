// SPDX-License-Identifier: BSD-2-Clause
// RST_STREAM for a request that goes on: nginx itself sends one only when it closes the request.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Queues the frame behind what the stream has queued, and tries to send it. What nginx sends at the
// request's end is then left out. False when out of memory; a connection that has failed counts as
// done.
[[nodiscard]] bool reset_http2_stream(ngx_http_request_t* r) noexcept;

}  // namespace durable
