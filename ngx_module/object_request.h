// SPDX-License-Identifier: BSD-2-Clause
// What a request says: its object's key, its arguments, its channels.
#pragma once

#include "core/errors.h"
#include "ngx_module/settings.h"

namespace durable {

// Evaluates a complex value; the text lives as long as the request. False when out of memory.
[[nodiscard]] bool evaluate(ngx_http_request_t* r, ngx_http_complex_value_t* value, std::string_view& text) noexcept;

// The first argument of that name, percent-decoded once; `is_present` tells a missing from an empty
// one. ErrorCode::invalid_escape for a bad escape.
[[nodiscard]] ErrorCode read_argument(ngx_http_request_t* r, std::string_view name, std::string& value,
                                      bool& is_present);

// The `event` argument of a publish: empty where there is none.
[[nodiscard]] ErrorCode read_event_type(ngx_http_request_t* r, std::string& type);

template <class Visit>
void for_each_header(const ngx_list_t& headers, Visit&& visit) noexcept {
    for (const ngx_list_part_t* part = &headers.part; part != nullptr; part = part->next) {
        const auto* header = static_cast<ngx_table_elt_t*>(part->elts);
        for (ngx_uint_t i = 0; i < part->nelts; ++i) visit(header[i]);
    }
}

// Whatever the case; `name` is lower-case.
[[nodiscard]] inline bool is_named(const ngx_table_elt_t& header, std::string_view name) noexcept {
    return header.key.len == name.size() && ngx_strncasecmp(header.key.data, to_ngx(name).data, name.size()) == 0;
}

// The first request header of that lower-case name; nullptr: there is none.
[[nodiscard]] const ngx_table_elt_t* find_header(const ngx_http_request_t* r, std::string_view name) noexcept;

// The path below the location's prefix, and whether it is as it was sent. nginx's own, decoded one
// counts where a rewrite made it, or where the prefix came out of dots.
struct CallPath {
    std::string_view text;
    bool is_raw;
};
[[nodiscard]] CallPath call_path(ngx_http_request_t* r) noexcept;

}  // namespace durable
