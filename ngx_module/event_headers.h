// SPDX-License-Identifier: BSD-2-Clause
// The request headers that tell the application its event. A client's own of these names never
// reach an application, whatever their case and number, with `_` for `-` too (FastCGI and its like
// take them for the same).
#pragma once

#include "core/records.h"
#include "ngx_module/nginx.h"

namespace durable {

// Takes the module's own names out of the request's headers, in a list of the request's own where it
// shares one with its parent. The value of the first `Durable-Event` is returned in `token`.
[[nodiscard]] bool remove_event_headers(ngx_http_request_t* r, std::string_view& token) noexcept;

// Adds the event's. False when out of memory. The texts outlive the request.
[[nodiscard]] bool add_event_headers(ngx_http_request_t* r, std::string_view token, EventKind kind,
                                     std::string_view object_key) noexcept;

// Whether it is one of the module's.
[[nodiscard]] bool is_own_name(const ngx_str_t& name) noexcept;

// Gives the request a list of its own with those headers alone. False when out of memory.
[[nodiscard]] bool keep_request_headers(ngx_http_request_t* r, bool (*is_kept)(const ngx_table_elt_t&)) noexcept;

// One more request header; `name` is lower-case but for the first letters of its words.
[[nodiscard]] bool add_request_header(ngx_http_request_t* r, std::string_view name, std::string_view value) noexcept;

}  // namespace durable
