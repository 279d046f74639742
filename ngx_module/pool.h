// SPDX-License-Identifier: BSD-2-Clause
// C++ objects in nginx's pools.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// Places a C++ object in a pool and destroys it with the pool; nullptr when out of memory.
template <class T, class... Args>
T* create_in_pool(ngx_pool_t* pool, Args&&... args) {
    static_assert(alignof(T) <= NGX_ALIGNMENT, "pool memory is only word-aligned");
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(pool, sizeof(T));
    if (cleanup == nullptr) return nullptr;
    auto* object = new (cleanup->data) T(std::forward<Args>(args)...);
    cleanup->handler = [](void* data) noexcept { static_cast<T*>(data)->~T(); };  // set only once it exists
    return object;
}

// A copy of `text` that lives as long as the pool; its data is nullptr when out of memory.
inline ngx_str_t copy_to_pool(ngx_pool_t* pool, std::string_view text) noexcept {
    auto* data = static_cast<u_char*>(ngx_pnalloc(pool, text.size() + 1));
    if (data == nullptr) return {0, nullptr};
    ngx_memcpy(data, text.data(), text.size());
    data[text.size()] = '\0';
    return {text.size(), data};
}

}  // namespace durable
