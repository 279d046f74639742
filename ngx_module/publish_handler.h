// SPDX-License-Identifier: BSD-2-Clause
// The content handler of `durable_publish`: POST or PUT publishes the body to a channel.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

ngx_int_t on_publish_request(ngx_http_request_t* r) noexcept;

}  // namespace durable
