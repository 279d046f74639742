// SPDX-License-Identifier: BSD-2-Clause
// Where a request is bound to its object: its own headers of our names go, its key is read, it gets
// an event. Stands after access control, so that what is refused has no token and no place in a line.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Before access control: a subrequest of `auth_request` must not see a client's forged headers.
ngx_int_t on_preaccess_phase(ngx_http_request_t* r) noexcept;
// After access control, before try_files and mirror.
ngx_int_t on_precontent_phase(ngx_http_request_t* r) noexcept;

}  // namespace durable
