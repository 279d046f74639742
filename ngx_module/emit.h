// SPDX-License-Identifier: BSD-2-Clause
// `durable_emit` (E-27): an event for each request that ended well, made in the log phase.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

ngx_int_t on_log_phase(ngx_http_request_t* r) noexcept;

}  // namespace durable
