// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/gate_phase.h"

#include "core/text_rules.h"
#include "ngx_module/event_headers.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/response.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

bool binds_requests(const LocationSettings& location) noexcept {
    return location.object != nullptr && location.content != ContentHandler::api &&
           location.content != ContentHandler::events && location.content != ContentHandler::status;
}

// Only an application has a use for an event.
bool has_application(const LocationSettings& location) noexcept { return location.content == ContentHandler::none; }

ngx_int_t refuse(ngx_http_request_t* r, ErrorCode error) noexcept {
    ngx_http_finalize_request(r, send_error(r, error));
    return NGX_DONE;
}

ngx_int_t bind(ngx_http_request_t* r, LocationSettings& location) {
    std::string_view key;
    if (!evaluate(r, &location.object->key, key)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (check_object_key(key) != ErrorCode::ok) return refuse(r, ErrorCode::invalid_object);
    if (!has_application(location)) return NGX_DECLINED;
    Worker* worker = Worker::of(*main_settings(r));
    RequestContext* context = RequestContext::find(r);
    if (context == nullptr) context = RequestContext::create(r);
    if (worker == nullptr || context == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    WorkerZone& zone = worker->zone(location.object->zone());
    if (!zone.claim()) return refuse(r, ErrorCode::no_memory);
    context->begin_event(zone, key, location);
    return add_event_headers(r, *context) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

// The module's headers are for the main request's application alone.
ngx_int_t hide_from_subrequest(ngx_http_request_t* r) noexcept {
    std::string_view token;
    return remove_event_headers(r, token) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace

ngx_int_t on_preaccess_phase(ngx_http_request_t* r) noexcept {
    if (r != r->main || !binds_requests(*location_settings(r))) return NGX_DECLINED;
    // Once it is bound the headers are our own.
    const RequestContext* context = RequestContext::find(r);
    if (context != nullptr && context->has_event()) return NGX_DECLINED;
    std::string_view token;
    return remove_event_headers(r, token) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

ngx_int_t on_precontent_phase(ngx_http_request_t* r) noexcept {
    if (r != r->main) return hide_from_subrequest(r);
    const RequestContext* context = RequestContext::find(r);
    if (context != nullptr && context->has_event()) return NGX_DECLINED;  // an internal redirect
    LocationSettings& location = *location_settings(r);
    if (!binds_requests(location)) return NGX_DECLINED;
    return guarded(r->connection->log, "binding a request", [&] { return bind(r, location); });
}

}  // namespace durable
