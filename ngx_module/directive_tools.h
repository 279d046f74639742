// SPDX-License-Identifier: BSD-2-Clause
// What the functions behind the directives share. The messages name the directive, the value and what is
// allowed.
#pragma once

#include "ngx_module/settings.h"

namespace durable {

inline char* const kDirectiveFailed = static_cast<char*>(NGX_CONF_ERROR);

inline char* duplicate() noexcept { return const_cast<char*>("is duplicate"); }

// The directive's name and its parameters.
inline const ngx_str_t* arguments(ngx_conf_t* cf) noexcept { return static_cast<ngx_str_t*>(cf->args->elts); }

inline bool starts_with(const ngx_str_t& text, std::string_view prefix) noexcept {
    return view(text).substr(0, prefix.size()) == prefix;
}

inline ngx_str_t behind(const ngx_str_t& text, std::string_view prefix) noexcept {
    return {text.len - prefix.size(), text.data + prefix.size()};
}

inline char* refuse(ngx_conf_t* cf, const ngx_str_t& value, const char* range) noexcept {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid value \"%V\" in \"%V\", it must be %s", &value, &arguments(cf)[0],
                       range);
    return kDirectiveFailed;
}

inline char* unknown_parameter(ngx_conf_t* cf, const ngx_str_t& value) noexcept {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "unknown parameter \"%V\" in \"%V\"", &value, &arguments(cf)[0]);
    return kDirectiveFailed;
}

inline bool compile(ngx_conf_t* cf, ngx_str_t value, ngx_http_complex_value_t* out) noexcept {
    ngx_http_compile_complex_value_t ccv{};
    ccv.cf = cf;
    ccv.value = &value;
    ccv.complex_value = out;
    return ngx_http_compile_complex_value(&ccv) == NGX_OK;
}

// Makes the location's content handler; directives.cpp.
char* set_content(ngx_conf_t* cf, LocationSettings& location, ContentHandler content,
                  ngx_http_handler_pt handler) noexcept;

// Refuses a location whose requests have nothing below it; nullptr: it has a prefix. directives.cpp.
char* refuse_without_prefix(ngx_conf_t* cf) noexcept;

// The directives of the events API; directives_events.cpp.
char* set_store(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept;
char* set_handler(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept;
char* set_events(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept;
char* set_identity(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept;
char* set_emit(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept;

}  // namespace durable
