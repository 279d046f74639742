// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/request_context.h"

#include <algorithm>

#include "core/event.h"
#include "core/line.h"
#include "ngx_module/gate.h"
#include "ngx_module/pool.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

void on_request_cleanup(void* data) noexcept { static_cast<RequestContext*>(data)->~RequestContext(); }

}  // namespace

RequestContext* RequestContext::find(ngx_http_request_t* r) noexcept {
    auto* context = static_cast<RequestContext*>(ngx_http_get_module_ctx(r, ngx_http_durable_module));
    if (context != nullptr || !(r->internal || r->filter_finalize)) return context;
    for (ngx_pool_cleanup_t* cleanup = r->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler != on_request_cleanup) continue;
        context = static_cast<RequestContext*>(cleanup->data);
        if (context->request != r) return nullptr;  // a subrequest shares its parent's pool
        ngx_http_set_ctx(r, context, ngx_http_durable_module);
        return context;
    }
    return nullptr;
}

RequestContext* RequestContext::create(ngx_http_request_t* r) noexcept {
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(r->pool, sizeof(RequestContext));
    if (cleanup == nullptr) return nullptr;
    auto* context = new (cleanup->data) RequestContext(r);
    cleanup->handler = on_request_cleanup;
    ngx_http_set_ctx(r, context, ngx_http_durable_module);
    return context;
}

RequestContext::~RequestContext() { end_event(); }

void RequestContext::begin_event(WorkerZone& worker_zone, std::string_view key, LocationSettings& location) {
    token = worker_zone.new_token();
    write_event_token(token, token_text_);
    worker_zone.events().add(*this);
    zone = &worker_zone;
    object_key = key;
    settings = &location;
    deadline = ngx_current_msec + location.event_timeout;
}

void RequestContext::join_section(WorkerZone& worker_zone, std::string_view key, LocationSettings& location,
                                  const EventToken& section_token, EventKind section_kind) noexcept {
    token = section_token;
    write_event_token(token, token_text_);
    zone = &worker_zone;
    object_key = key;
    settings = &location;
    kind = section_kind;
    is_inner = true;
}

LineEntryRecord* RequestContext::section() const noexcept { return gate == nullptr ? nullptr : gate->section(); }

bool RequestContext::is_overdue() noexcept {
    const auto is_past = [this] { return static_cast<ngx_msec_int_t>(deadline - ngx_current_msec) <= 0; };
    if (!is_past()) return false;
    if (!is_bound || zone == nullptr || !zone->is_claimed()) return true;
    ZoneAccess access(*zone);
    if (EventRecord* event = find_event(access, token)) deadline += take_queued_time(*event, ngx_current_msec);
    return is_past();
}

void RequestContext::set_bound() noexcept {
    is_bound = true;
    timer_.data = this;
    timer_.handler = on_deadline;
    timer_.log = request->connection->log;
    timer_.cancelable = 1;  // the request itself keeps a worker that is to quit
    // While a section waits in the line the deadline moves on with the clock: not a look each millisecond.
    ngx_add_timer(&timer_, std::max<ngx_msec_int_t>(static_cast<ngx_msec_int_t>(deadline - ngx_current_msec), 10));
}

// The request itself goes on, and so does a section that it holds as a whole.
void RequestContext::on_deadline(ngx_event_t* event) noexcept {
    auto& context = *static_cast<RequestContext*>(event->data);
    if (context.stream != nullptr) return;  // it ends the event by itself
    if (!context.is_overdue()) return context.set_bound();
    context.forget_event();
}

void RequestContext::forget_event() noexcept {
    if (zone == nullptr) return;
    WorkerZone& ended_in = *zone;
    zone = nullptr;
    if (timer_.timer_set) ngx_del_timer(&timer_);
    if (is_inner) return;
    ended_in.events().remove(*this);
    if (!is_bound || !ended_in.is_claimed()) return;
    is_bound = false;
    ZoneAccess access(ended_in);
    if (EventRecord* event = find_event(access, token)) durable::end_event(access, *event);
}

void RequestContext::end_event() noexcept {
    forget_event();
    if (gate != nullptr) gate->leave_line();  // the next one in line finds all of this event over
}

}  // namespace durable
