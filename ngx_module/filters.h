// SPDX-License-Identifier: BSD-2-Clause
// The module's output filters: an event ends when the last byte of its answer has passed.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

void install_filters() noexcept;

// What stands below this module's own filters, for an answer of its own.
ngx_int_t send_header_below(ngx_http_request_t* r) noexcept;
ngx_int_t send_body_below(ngx_http_request_t* r, ngx_chain_t* chain) noexcept;

}  // namespace durable
