// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/object_request.h"

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

}  // namespace durable
