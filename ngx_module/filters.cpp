// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/filters.h"

#include "ngx_module/event_stream.h"
#include "ngx_module/request_context.h"
#include "ngx_module/section.h"

namespace durable {

namespace {

ngx_http_output_header_filter_pt next_header_filter;
ngx_http_output_body_filter_pt next_body_filter;

// The stream that answers a request in the place of whatever nginx sends.
EventStream* stream_of(const ngx_http_request_t* r, const RequestContext* context) noexcept {
    return context == nullptr || r->post_action ? nullptr : context->stream;
}

ngx_int_t on_header(ngx_http_request_t* r) noexcept {
    if (r != r->main) {
        Section* section = Section::of(r);
        return section == nullptr ? next_header_filter(r) : section->on_header(r);
    }
    RequestContext* context = RequestContext::find(r);
    if (EventStream* stream = stream_of(r, context)) return stream->on_answer_head();
    const ngx_int_t rc = next_header_filter(r);
    // Without a body there is no last buffer.
    if (context != nullptr && r->header_only) context->end_event();
    return rc;
}

bool has_last_buffer(const ngx_chain_t* chain) noexcept {
    for (; chain != nullptr; chain = chain->next) {
        if (chain->buf->last_buf) return true;
    }
    return false;
}

// nginx flushes what an application that died has sent, and has let go of the connection to it by then.
bool is_cut_off(const ngx_http_request_t* r) noexcept {
    return r->upstream != nullptr && r->upstream->cleanup == nullptr && !r->internal;
}

// The cleanup alone would be late: lingering_close keeps a request up to 30 s after its answer.
ngx_int_t on_body(ngx_http_request_t* r, ngx_chain_t* in) noexcept {
    if (r != r->main) {
        Section* section = Section::of(r);
        return section == nullptr ? next_body_filter(r, in) : section->on_body(in);
    }
    RequestContext* context = RequestContext::find(r);
    if (EventStream* stream = stream_of(r, context)) return stream->on_answer_body(in);
    const bool is_last = context != nullptr && (has_last_buffer(in) || is_cut_off(r));
    const ngx_int_t rc = next_body_filter(r, in);
    if (is_last) context->end_event();
    return rc;
}

}  // namespace

ngx_int_t send_header_below(ngx_http_request_t* r) noexcept { return next_header_filter(r); }

ngx_int_t send_body_below(ngx_http_request_t* r, ngx_chain_t* chain) noexcept { return next_body_filter(r, chain); }

void install_filters() noexcept {
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = on_header;
    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = on_body;
}

}  // namespace durable
