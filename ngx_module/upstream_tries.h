// SPDX-License-Identifier: BSD-2-Clause
// A request whose application has made a host call is never given to another server: what the call
// did cannot be done twice.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

inline void forbid_retries(ngx_http_upstream_t& u) noexcept {
    u.peer.tries = 0;
    u.peer.cached = 0;  // a connection that was kept alive would get one more try
}

}  // namespace durable
