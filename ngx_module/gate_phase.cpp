// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/gate_phase.h"

#include "core/event.h"
#include "core/line.h"
#include "core/object.h"
#include "core/text_rules.h"
#include "ngx_module/event_headers.h"
#include "ngx_module/event_stream.h"
#include "ngx_module/gate.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"
#include "ngx_module/response.h"
#include "ngx_module/section.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

bool is_gated(const LocationSettings& location) noexcept {
    return (location.object != nullptr || location.exclusive != nullptr) && location.content != ContentHandler::api &&
           location.content != ContentHandler::events && location.content != ContentHandler::status;
}

// Only an application has a use for an event.
bool has_application(const LocationSettings& location) noexcept { return location.content == ContentHandler::none; }

bool needs_event(const LocationSettings& location) noexcept {
    return has_application(location) || location.exclusive != nullptr;
}

// An object that a directive names for this request.
struct NamedObject {
    WorkerZone* zone = nullptr;
    std::string_view key;

    bool operator==(const NamedObject& other) const noexcept { return zone == other.zone && key == other.key; }
};

// NGX_OK, or how the phase ends.
ngx_int_t name_object(ngx_http_request_t* r, ObjectSettings& settings, NamedObject& named) noexcept {
    Worker* worker = Worker::of(*main_settings(r));
    if (worker == nullptr || !evaluate(r, &settings.key, named.key)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (check_object_key(named.key) != ErrorCode::ok) return refuse_phase(r, ErrorCode::invalid_object);
    named.zone = &worker->zone(settings.zone());
    return named.zone->claim() ? NGX_OK : refuse_phase(r, ErrorCode::no_memory);
}

// X-14a: whether the request was sent by the section that runs on the object, with its token; `kind` is
// then that of the section's event.
bool is_sent_by_section(const RequestContext& context, const NamedObject& object, EventKind& kind) noexcept {
    const auto token = read_event_token(context.offered_token);
    if (!token) return false;
    ZoneAccess access(*object.zone);
    if (!runs_section_of(access, object.key, *token)) return false;
    // A whole request has no record before its first host call; any other section's event has one.
    const EventRecord* event = find_event(access, *token);
    kind = event == nullptr ? EventKind::fetch : event->kind;
    return true;
}

bool is_line_free(const NamedObject& named) noexcept {
    ZoneAccess access(*named.zone);
    const ObjectRecord* object = find_object(access, named.key);
    return object == nullptr || !must_wait(*object, nullptr);
}

ngx_int_t enter(RequestContext& context, const NamedObject& object, LineKind kind, const ObjectSettings& settings) {
    if (kind == LineKind::held && is_line_free(object)) return NGX_DECLINED;
    if (context.gate == nullptr) context.gate = create_in_pool<Gate>(context.request->pool, context);
    if (context.gate == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    return context.gate->enter(*object.zone, object.key, kind, settings.queue, settings.wait);
}

// Waits where it has to, first at the object's gate, then for a section of its own. Called again
// when its turn has come. NGX_DECLINED: the request may go on.
ngx_int_t wait_in_line(RequestContext& context, LocationSettings& location, const NamedObject& object,
                       const NamedObject& exclusive) {
    const bool is_one_line = location.object != nullptr && object == exclusive;
    if (context.passed < RequestContext::Passed::gate) {
        context.passed = RequestContext::Passed::gate;
        if (location.object != nullptr && !is_one_line) {
            const ngx_int_t rc = enter(context, object, LineKind::held, *location.object);
            if (rc != NGX_DECLINED) return rc;
        }
    }
    if (context.passed < RequestContext::Passed::line) {
        context.passed = RequestContext::Passed::line;
        if (location.exclusive != nullptr) return enter(context, exclusive, LineKind::section, *location.exclusive);
    }
    return NGX_DECLINED;
}

ngx_int_t bind(ngx_http_request_t* r, LocationSettings& location) {
    NamedObject object, exclusive;
    if (location.object != nullptr) {
        const ngx_int_t rc = name_object(r, *location.object, object);
        if (rc != NGX_OK) return rc;
    }
    if (location.exclusive != nullptr) {
        const ngx_int_t rc = name_object(r, *location.exclusive, exclusive);
        if (rc != NGX_OK) return rc;
    }
    RequestContext* context = RequestContext::find(r);
    if (context == nullptr && !needs_event(location) && is_line_free(object)) return NGX_DECLINED;
    if (context == nullptr) context = RequestContext::create(r);
    if (context == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    NamedObject& bound = location.object != nullptr ? object : exclusive;
    NamedObject& line = location.exclusive != nullptr ? exclusive : object;
    EventKind kind;
    if (context->passed == RequestContext::Passed::nothing && is_sent_by_section(*context, line, kind)) {
        context->passed = RequestContext::Passed::line;
        context->join_section(*line.zone, line.key, location, *read_event_token(context->offered_token), kind);
    } else {
        const ngx_int_t rc = wait_in_line(*context, location, object, exclusive);
        if (rc != NGX_DECLINED || !needs_event(location)) return rc;
        context->begin_event(*bound.zone, bound.key, location);
        if (context->section() != nullptr) context->gate->set_token(context->token);
    }
    if (!has_application(location)) return NGX_DECLINED;
    return add_event_headers(r, context->token_text(), context->kind, context->object_key)
               ? NGX_DECLINED
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

// The module's headers are for the main request's application alone.
ngx_int_t hide_from_subrequest(ngx_http_request_t* r) noexcept {
    std::string_view token;
    return remove_event_headers(r, token) ? NGX_DECLINED : NGX_HTTP_INTERNAL_SERVER_ERROR;
}

}  // namespace

ngx_int_t on_preaccess_phase(ngx_http_request_t* r) noexcept {
    if (r != r->main || !is_gated(*location_settings(r))) return NGX_DECLINED;
    // Once it is bound the headers are our own.
    RequestContext* context = RequestContext::find(r);
    if (context != nullptr) return NGX_DECLINED;
    std::string_view token;
    if (!remove_event_headers(r, token)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (token.empty()) return NGX_DECLINED;
    context = RequestContext::create(r);
    if (context == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    context->offered_token = token;
    return NGX_DECLINED;
}

ngx_int_t on_precontent_phase(ngx_http_request_t* r) noexcept {
    if (Section::of(r) != nullptr) {
        Section::on_precontent(r);
        return NGX_DECLINED;
    }
    if (r != r->main) return hide_from_subrequest(r);
    const RequestContext* context = RequestContext::find(r);
    if (context != nullptr && context->stream != nullptr && !r->post_action) {
        ngx_http_finalize_request(r, context->stream->on_redirect());
        return NGX_DONE;
    }
    if (context != nullptr && context->has_event()) return NGX_DECLINED;  // an internal redirect
    LocationSettings& location = *location_settings(r);
    if (!is_gated(location)) return NGX_DECLINED;
    return guarded(r->connection->log, "binding a request", [&] { return bind(r, location); });
}

}  // namespace durable
