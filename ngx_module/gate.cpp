// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/gate.h"

#include "ngx_module/request_context.h"
#include "ngx_module/response.h"
#include "ngx_module/worker.h"

namespace durable {

Gate::Gate(RequestContext& context) noexcept : context_(context), request_(context.request) {
    timer_.data = this;
    timer_.handler = on_timeout;
    timer_.log = request_->connection->log;
}

// The pool destroys it before the context, whose event must be over when the next in line comes.
Gate::~Gate() {
    context_.end_event();
    context_.gate = nullptr;
    if (timer_.timer_set) ngx_del_timer(&timer_);
}

ngx_int_t Gate::enter(WorkerZone& zone, std::string_view object_key, LineKind kind, ngx_uint_t queue, ngx_msec_t wait) {
    is_section_ = kind == LineKind::section;
    switch (enter_line(zone, object_key, kind, static_cast<std::uint32_t>(queue))) {
        case LineOutcome::passed:
        case LineOutcome::granted: return NGX_DECLINED;
        case LineOutcome::event_over:  // it has no caller
        case LineOutcome::full: return refuse_phase(request_, ErrorCode::exclusive_queue_full);
        case LineOutcome::no_memory: return refuse_phase(request_, ErrorCode::no_memory);
        case LineOutcome::waiting: break;
    }
    request_->read_event_handler = ngx_http_test_reading;
    request_->write_event_handler = ngx_http_request_empty_handler;
    ngx_add_timer(&timer_, wait);
    // A client that has left already causes no further event.
    ngx_event_t* read = request_->connection->read;
    if (read->pending_eof) { ngx_post_event(read, &ngx_posted_events); }
    return NGX_DONE;
}

void Gate::on_granted() noexcept {
    if (timer_.timer_set) ngx_del_timer(&timer_);
    if (is_in_line()) (void)end_caller_wait();
    ngx_connection_t* c = request_->connection;
    ngx_http_set_log_request(c->log, request_);
    request_->read_event_handler = ngx_http_block_reading;
    request_->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(request_);
    ngx_http_run_posted_requests(c);
}

void Gate::on_timeout(ngx_event_t* event) noexcept {
    Gate& gate = *static_cast<Gate*>(event->data);
    ngx_connection_t* c = gate.request_->connection;
    ngx_http_set_log_request(c->log, gate.request_);
    gate.leave_line();
    refuse_phase(gate.request_, ErrorCode::exclusive_wait_timeout);
    ngx_http_run_posted_requests(c);
}

}  // namespace durable
