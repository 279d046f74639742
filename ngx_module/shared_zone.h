// SPDX-License-Identifier: BSD-2-Clause
// A zone's initialisation, in the master or the single process, before any fork.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Takes the old cycle's zone over, or fills the new one. On reuse it writes nothing: the reload may
// still fail. A failure here refuses the configuration.
ngx_int_t on_zone_init(ngx_shm_zone_t* shm_zone, void* old_data) noexcept;

}  // namespace durable
