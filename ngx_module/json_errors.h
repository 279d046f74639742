// SPDX-License-Identifier: BSD-2-Clause
// nginx's own error pages (413, 403 of access control, …) as JSON, in the locations whose callers are
// programs: those of `durable_api` and `durable_events`.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

void install_json_errors() noexcept;

}  // namespace durable
