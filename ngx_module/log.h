// SPDX-License-Identifier: BSD-2-Clause
// Log lines, and the border that no exception crosses. No format ever comes from data.
#pragma once

#include <exception>

#include "ngx_module/nginx.h"

namespace durable {

// `text` is the whole line behind "durable: ".
inline void log_line(ngx_uint_t level, ngx_log_t* log, std::string_view text) noexcept {
    ngx_str_t line = to_ngx(text);
    ngx_log_error(level, log, 0, "durable: %V", &line);
}

// Runs C++ that may throw from a C callback: nginx gets a code, the log gets the reason.
template <class Body>
ngx_int_t guarded(ngx_log_t* log, const char* doing, Body&& body) noexcept {
    try {
        return body();
    } catch (const std::exception& e) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "durable: %s failed: %s", doing, e.what());
    } catch (...) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "durable: %s failed", doing);
    }
    return NGX_ERROR;
}

}  // namespace durable
