// SPDX-License-Identifier: BSD-2-Clause
// Answers of the module's own: small JSON documents and refusals.
#pragma once

#include "core/errors.h"
#include "ngx_module/nginx.h"

namespace durable {

// Sends the whole answer and returns what a content handler returns. A body that the client still
// sends is discarded.
ngx_int_t send_json(ngx_http_request_t* r, ngx_uint_t status, std::string_view body) noexcept;

// The same without a copy: `body` stays as it is until the request is over.
ngx_int_t send_kept_json(ngx_http_request_t* r, ngx_uint_t status, std::string_view body) noexcept;

// The refusal of `error`; `detail` as in append_error_json.
ngx_int_t send_error(ngx_http_request_t* r, ErrorCode error, std::string_view detail = {}) noexcept;

// The same from a phase handler, which returns what this does.
ngx_int_t refuse_phase(ngx_http_request_t* r, ErrorCode error) noexcept;

// 405 with the methods that are allowed, as in "GET, HEAD".
ngx_int_t send_method_not_allowed(ngx_http_request_t* r, std::string_view allowed) noexcept;

// The head of an event stream, which gzip must not hold back.
ngx_int_t send_event_stream_head(ngx_http_request_t* r) noexcept;

// `name` and `value` must outlive the request. False when out of memory.
[[nodiscard]] bool add_header(ngx_http_request_t* r, std::string_view name, std::string_view value) noexcept;

}  // namespace durable
