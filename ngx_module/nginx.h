// SPDX-License-Identifier: BSD-2-Clause
// The only file that includes nginx's headers. They have no extern "C" and pull the system's in, so
// the C++ headers come first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" {
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

extern ngx_module_t ngx_http_durable_module;
}

namespace durable {

inline std::string_view view(const ngx_str_t& text) noexcept {
    return {reinterpret_cast<const char*>(text.data), text.len};
}

inline ngx_str_t to_ngx(std::string_view text) noexcept {
    return {text.size(), reinterpret_cast<u_char*>(const_cast<char*>(text.data()))};
}

}  // namespace durable
