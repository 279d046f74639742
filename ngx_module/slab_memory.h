// SPDX-License-Identifier: BSD-2-Clause
// The zone's memory: nginx's slab pool, and its own lock, the only one that the master frees when a
// worker is killed while it holds it.
#pragma once

#include "core/shared_memory.h"
#include "ngx_module/nginx.h"

namespace durable {

class SlabMemory final : public SharedMemory {
public:
    explicit SlabMemory(ngx_slab_pool_t* pool = nullptr) noexcept : pool_(pool) {}

    void lock() noexcept override { ngx_shmtx_lock(&pool_->mutex); }
    void unlock() noexcept override { ngx_shmtx_unlock(&pool_->mutex); }
    void* allocate(std::size_t bytes) noexcept override { return ngx_slab_alloc_locked(pool_, bytes); }
    void release(void* block) noexcept override { ngx_slab_free_locked(pool_, block); }

private:
    ngx_slab_pool_t* pool_;
};

}  // namespace durable
