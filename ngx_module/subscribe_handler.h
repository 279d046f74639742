// SPDX-License-Identifier: BSD-2-Clause
// The content handler of `durable_subscribe`: GET answers an event stream of the channels.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

inline constexpr ngx_uint_t kMaxStreamChannels = 64;

ngx_int_t on_subscribe_request(ngx_http_request_t* r) noexcept;

}  // namespace durable
