// SPDX-License-Identifier: BSD-2-Clause
// The module's output filters: an event ends when the last byte of its answer has passed.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

void install_filters() noexcept;

}  // namespace durable
