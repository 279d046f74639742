// SPDX-License-Identifier: BSD-2-Clause
// $durable_event, $durable_event_kind, $durable_object.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

ngx_int_t add_variables(ngx_conf_t* cf) noexcept;

}  // namespace durable
