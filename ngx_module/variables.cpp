// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/variables.h"

#include "ngx_module/gate.h"
#include "ngx_module/request_context.h"
#include "ngx_module/section.h"

namespace durable {

namespace {

ngx_int_t set_value(ngx_http_variable_value_t* value, std::string_view text) noexcept {
    value->len = static_cast<unsigned>(text.size());
    value->data = to_ngx(text).data;
    value->valid = 1;
    value->no_cacheable = 0;
    value->not_found = 0;
    return NGX_OK;
}

// Only a running event of the main request has values.
const RequestContext* running(ngx_http_request_t* r) noexcept {
    const RequestContext* context = RequestContext::find(r);
    return context != nullptr && context->has_event() ? context : nullptr;
}

ngx_int_t get_event(ngx_http_request_t* r, ngx_http_variable_value_t* value, uintptr_t) noexcept {
    const RequestContext* context = running(r);
    if (context != nullptr) return set_value(value, context->token_text());
    value->not_found = 1;
    return NGX_OK;
}

ngx_int_t get_kind(ngx_http_request_t* r, ngx_http_variable_value_t* value, uintptr_t) noexcept {
    const RequestContext* context = running(r);
    if (context != nullptr) return set_value(value, context->kind == EventKind::fetch ? "fetch" : "durable-block");
    value->not_found = 1;
    return NGX_OK;
}

// Known for the log after the event's end too.
ngx_int_t get_object(ngx_http_request_t* r, ngx_http_variable_value_t* value, uintptr_t) noexcept {
    const RequestContext* context = RequestContext::find(r);
    if (context != nullptr && !context->object_key.empty()) return set_value(value, context->object_key);
    value->not_found = 1;
    return NGX_OK;
}

// Of a request at the gate, a whole-request section, and a host call: its section's or its own.
const LineWaiter* find_waiter(ngx_http_request_t* r) noexcept {
    if (const RequestContext* context = RequestContext::find(r)) {
        if (context->gate != nullptr) return context->gate;
    }
    if (location_settings(r)->content != ContentHandler::api) return nullptr;
    const HostCall* call = HostCall::of(r);
    if (call == nullptr || call->section == nullptr) return call;
    return call->section;
}

ngx_int_t get_wait(ngx_http_request_t* r, ngx_http_variable_value_t* value, uintptr_t) noexcept {
    const LineWaiter* waiter = find_waiter(r->main);
    if (waiter == nullptr || !waiter->has_waited_in_line()) return set_value(value, "-");
    auto* text = static_cast<u_char*>(ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4));
    if (text == nullptr) return NGX_ERROR;
    const ngx_msec_t waited = waiter->waited();
    const u_char* end = ngx_sprintf(text, "%T.%03M", static_cast<time_t>(waited / 1000), waited % 1000);
    return set_value(value, {reinterpret_cast<char*>(text), static_cast<std::size_t>(end - text)});
}

ngx_http_variable_t variables[] = {
    {ngx_string("durable_event"), nullptr, get_event, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("durable_event_kind"), nullptr, get_kind, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("durable_wait"), nullptr, get_wait, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("durable_object"), nullptr, get_object, 0, NGX_HTTP_VAR_NOCACHEABLE, 0},
};

}  // namespace

ngx_int_t add_variables(ngx_conf_t* cf) noexcept {
    for (const ngx_http_variable_t& one : variables) {
        ngx_str_t name = one.name;
        ngx_http_variable_t* variable = ngx_http_add_variable(cf, &name, one.flags);
        if (variable == nullptr) return NGX_ERROR;
        variable->get_handler = one.get_handler;
        variable->data = one.data;
    }
    return NGX_OK;
}

}  // namespace durable
