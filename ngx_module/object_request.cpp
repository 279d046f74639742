// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/object_request.h"

#include <algorithm>

#include "core/call_path.h"
#include "core/text_rules.h"
#include "core/url_text.h"

namespace durable {

bool evaluate(ngx_http_request_t* r, ngx_http_complex_value_t* value, std::string_view& text) noexcept {
    ngx_str_t result;
    if (ngx_http_complex_value(r, value, &result) != NGX_OK) return false;
    text = view(result);
    return true;
}

ErrorCode read_argument(ngx_http_request_t* r, std::string_view name, std::string& value, bool& is_present) {
    value.clear();
    const auto raw = find_argument(view(r->args), name);
    is_present = raw.has_value();
    if (!is_present) return ErrorCode::ok;
    auto decoded = percent_decode(*raw);
    if (!decoded) return ErrorCode::invalid_escape;
    value = std::move(*decoded);
    return ErrorCode::ok;
}

ErrorCode read_event_type(ngx_http_request_t* r, std::string& type) {
    bool is_present;
    const ErrorCode error = read_argument(r, "event", type, is_present);
    if (error != ErrorCode::ok || !is_present) return error;
    return check_event_type(type);
}

const ngx_table_elt_t* find_header(const ngx_http_request_t* r, std::string_view name) noexcept {
    const ngx_table_elt_t* found = nullptr;
    for_each_header(r->headers_in.headers, [&](const ngx_table_elt_t& header) {
        if (found == nullptr && is_named(header, name)) found = &header;
    });
    return found;
}

CallPath call_path(ngx_http_request_t* r) noexcept {
    const std::string_view prefix = view(core_settings(r)->name);
    if (r->valid_unparsed_uri) {
        if (const auto raw = path_below(view(r->unparsed_uri), prefix)) return {*raw, true};
    }
    std::string_view rest = view(r->uri).substr(std::min(prefix.size(), r->uri.len));
    const bool is_below = prefix.back() == '/' || rest.empty() || rest.front() == '/';
    rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
    return {is_below ? rest : std::string_view(), false};
}

}  // namespace durable
