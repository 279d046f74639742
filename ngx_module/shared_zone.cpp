// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/shared_zone.h"

#include "ngx_module/event_settings.h"
#include "ngx_module/slab_memory.h"

namespace durable {

ngx_int_t on_zone_init(ngx_shm_zone_t* shm_zone, void* old_data) noexcept {
    auto& zone = *static_cast<ZoneSettings*>(shm_zone->data);
    auto* pool = reinterpret_cast<ngx_slab_pool_t*>(shm_zone->shm.addr);
    if (zone.store != nullptr && check_store_folder(*zone.store, shm_zone->shm.log) != NGX_OK) return NGX_ERROR;
    if (old_data != nullptr) {
        zone.root = static_cast<ZoneSettings*>(old_data)->root;
        if (zone.root->layout_version == kLayoutVersion) return NGX_OK;
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "\"durable_zone\" \"%V\" was made by another version of the module: restart nginx "
                      "instead of reloading it", &zone.name);
        return NGX_ERROR;
    }
    pool->log_nomem = 0;  // a full zone is an answer, not an alert
    SlabMemory memory(pool);
    {
        const SharedLock lock(memory);
        zone.root = make_zone_root(lock, shm_zone->shm.size);
    }
    if (zone.root != nullptr) return NGX_OK;
    ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0, "\"durable_zone\" \"%V\" is too small", &zone.name);
    return NGX_ERROR;
}

}  // namespace durable
