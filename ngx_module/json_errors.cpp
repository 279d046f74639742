// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/json_errors.h"

#include "core/errors.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/log.h"
#include "ngx_module/pool.h"
#include "ngx_module/settings.h"

namespace durable {

namespace {

ngx_http_output_header_filter_pt next_header_filter;
ngx_http_output_body_filter_pt next_body_filter;

struct NginxError {
    ngx_uint_t status;
    std::string_view code;
    std::string_view message;
};
constexpr NginxError kErrors[] = {
    {NGX_HTTP_BAD_REQUEST, "invalid_request", "the request is not valid HTTP"},
    {NGX_HTTP_UNAUTHORIZED, "unauthorized", "access needs authentication"},
    {NGX_HTTP_FORBIDDEN, "forbidden", "access is not allowed"},
    {NGX_HTTP_NOT_FOUND, "not_found", "there is no such call"},
    {NGX_HTTP_NOT_ALLOWED, "method_not_allowed", "this call does not have that method"},
    {NGX_HTTP_REQUEST_TIME_OUT, "request_timeout", "the request's body did not come in time"},
    {NGX_HTTP_REQUEST_ENTITY_TOO_LARGE, "request_too_large", "the request's body is too large"},
    {NGX_HTTP_TOO_MANY_REQUESTS, "too_many_requests", "there are too many requests"},
    {NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable", "the server cannot serve this now"},
    {NGX_HTTP_GATEWAY_TIME_OUT, "worker_timeout", "the event's worker process did not answer in time"},
};

void append_error(std::string& out, ngx_http_request_t* r) {
    const ngx_uint_t status = r->headers_out.status;
    if (status == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE && location_settings(r)->content == ContentHandler::api) {
        if (const ErrorCode error = too_large_error(r); error != ErrorCode::ok) return append_error_json(out, error);
    }
    for (const NginxError& one : kErrors) {
        if (one.status == status) return append_error_json(out, one.code, one.message);
    }
    if (status >= 500) return append_error_json(out, "internal_error", "the server failed, its error log says why");
    append_error_json(out, "invalid_request", "the request is refused with status " + std::to_string(status));
}

// The page's own body never comes: whoever made it sees a head that is all there was to send.
ngx_int_t send_as_json(ngx_http_request_t* r) {
    std::string body;
    append_error(body, r);
    r->headers_out.content_length_n = static_cast<off_t>(body.size());
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = nullptr;
    r->headers_out.charset.len = 0;
    ngx_buf_t* b = ngx_create_temp_buf(r->pool, body.size());
    if (b == nullptr) return NGX_ERROR;
    b->last = ngx_cpymem(b->pos, body.data(), body.size());
    b->last_buf = b->last_in_chain = 1;
    const ngx_int_t rc = next_header_filter(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) return rc;
    r->header_only = 1;
    ngx_chain_t out{b, nullptr};
    return next_body_filter(r, &out);
}

// `err_status` is set by nginx's error pages alone.
ngx_int_t on_header(ngx_http_request_t* r) noexcept {
    const ContentHandler content = location_settings(r)->content;
    const bool wants_json = content == ContentHandler::api || content == ContentHandler::events;
    if (!wants_json || r != r->main || r->err_status < NGX_HTTP_BAD_REQUEST) return next_header_filter(r);
    return guarded(r->connection->log, "an error page", [r] { return send_as_json(r); });
}

}  // namespace

void install_json_errors() noexcept {
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = on_header;
    next_body_filter = ngx_http_top_body_filter;
}

}  // namespace durable
