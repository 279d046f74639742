// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/filters.h"

#include "ngx_module/request_context.h"

namespace durable {

namespace {

ngx_http_output_body_filter_pt next_body_filter;

bool has_last_buffer(const ngx_chain_t* chain) noexcept {
    for (; chain != nullptr; chain = chain->next) {
        if (chain->buf->last_buf) return true;
    }
    return false;
}

// The cleanup alone would be late: lingering_close keeps a request up to 30 s after its answer.
ngx_int_t on_body(ngx_http_request_t* r, ngx_chain_t* in) noexcept {
    if (r != r->main) return next_body_filter(r, in);
    RequestContext* context = RequestContext::find(r);
    const bool is_last = context != nullptr && has_last_buffer(in);
    const ngx_int_t rc = next_body_filter(r, in);
    if (is_last) context->end_event();
    return rc;
}

}  // namespace

void install_filters() noexcept {
    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = on_body;
}

}  // namespace durable
