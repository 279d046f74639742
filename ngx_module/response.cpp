// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/response.h"

#include "ngx_module/log.h"
#include "ngx_module/pool.h"

namespace durable {

bool add_header(ngx_http_request_t* r, std::string_view name, std::string_view value) noexcept {
    auto* header = static_cast<ngx_table_elt_t*>(ngx_list_push(&r->headers_out.headers));
    if (header == nullptr) return false;
    ngx_memzero(header, sizeof *header);
    header->hash = 1;
    header->key = to_ngx(name);
    header->value = to_ngx(value);
    return true;
}

namespace {

ngx_int_t send_json_buffer(ngx_http_request_t* r, ngx_uint_t status, std::string_view body, bool is_kept) noexcept {
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    if (discarded != NGX_OK) return discarded;
    r->headers_out.status = status;
    r->headers_out.content_length_n = static_cast<off_t>(body.size());
    if (status != NGX_HTTP_NO_CONTENT) {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
    }
    if (body.empty()) r->header_only = 1;
    const ngx_int_t rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) return rc;
    ngx_buf_t* b = is_kept ? static_cast<ngx_buf_t*>(ngx_calloc_buf(r->pool)) : ngx_create_temp_buf(r->pool, body.size());
    if (b == nullptr) return NGX_ERROR;
    if (is_kept) {
        b->pos = to_ngx(body).data;
        b->last = b->pos + body.size();
        b->memory = 1;
    } else {
        b->last = ngx_cpymem(b->pos, body.data(), body.size());
    }
    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    ngx_chain_t out{b, nullptr};
    return ngx_http_output_filter(r, &out);
}

}  // namespace

ngx_int_t send_json(ngx_http_request_t* r, ngx_uint_t status, std::string_view body) noexcept {
    return send_json_buffer(r, status, body, false);
}

ngx_int_t send_kept_json(ngx_http_request_t* r, ngx_uint_t status, std::string_view body) noexcept {
    return send_json_buffer(r, status, body, true);
}

ngx_int_t send_error(ngx_http_request_t* r, ErrorCode error, std::string_view detail) noexcept {
    return guarded(r->connection->log, "an answer", [&] {
        std::string body;
        append_error_json(body, error, detail);
        if (error == ErrorCode::exclusive_queue_full && !add_header(r, "Retry-After", "1")) return ngx_int_t{NGX_ERROR};
        return send_json(r, static_cast<ngx_uint_t>(error_info(error).status), body);
    });
}

ngx_int_t refuse_phase(ngx_http_request_t* r, ErrorCode error) noexcept {
    ngx_http_finalize_request(r, send_error(r, error));
    return NGX_DONE;
}

ngx_int_t send_method_not_allowed(ngx_http_request_t* r, std::string_view allowed) noexcept {
    if (!add_header(r, "Allow", allowed)) return NGX_ERROR;
    return send_error(r, ErrorCode::method_not_allowed, view(r->method_name));
}

ngx_int_t send_event_stream_head(ngx_http_request_t* r) noexcept {
    r->headers_out.status = NGX_HTTP_OK;
    ngx_str_set(&r->headers_out.content_type, "text/event-stream; charset=utf-8");
    r->headers_out.content_type_len = sizeof("text/event-stream") - 1;
    r->headers_out.content_length_n = -1;
    r->gzip_tested = 1;
    r->gzip_ok = 0;
    if (!add_header(r, "Cache-Control", "no-store") || !add_header(r, "X-Accel-Buffering", "no")) return NGX_ERROR;
    return ngx_http_send_header(r);
}

}  // namespace durable
