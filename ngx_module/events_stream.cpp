// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/events_stream.h"

#include "core/event_documents.h"
#include "core/sse_frame.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/response.h"
#include "ngx_module/stream_output.h"

namespace durable {

namespace {

void on_cleanup(void* data) noexcept { static_cast<EventsStream*>(data)->~EventsStream(); }

}  // namespace

ngx_int_t open_events_stream(ngx_http_request_t* r, EventStore& store, Caller caller) {
    if (r->method == NGX_HTTP_HEAD) {
        r->header_only = 1;
        return send_event_stream_head(r);
    }
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(r->pool, sizeof(EventsStream));
    if (cleanup == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    auto* stream = new (cleanup->data) EventsStream(r);
    cleanup->handler = on_cleanup;
    OpenStreamJob job;
    job.caller = std::move(caller);
    job.subject = query_argument(view(r->args), "subject");
    if (const ngx_table_elt_t* header = find_header(r, "last-event-id")) job.last_event_id = view(header->value);
    store.open_stream(std::move(job), *stream);
    stream->park();
    return NGX_DONE;
}

EventsStream::EventsStream(ngx_http_request_t* r) noexcept
    : request_(r), ping_(location_settings(r)->ping), send_timeout_(core_settings(r)->send_timeout) {}

EventsStream::~EventsStream() { request_->connection->write->cancelable = 0; }

EventsStream& EventsStream::of(ngx_http_request_t* r) noexcept {
    ngx_pool_cleanup_t* cleanup = r->pool->cleanup;
    while (cleanup->handler != on_cleanup) cleanup = cleanup->next;
    return *static_cast<EventsStream*>(cleanup->data);
}

void EventsStream::park() noexcept {
    ngx_connection_t* c = request_->connection;
    request_->read_event_handler = on_readable;
    request_->write_event_handler = ngx_http_request_empty_handler;
    // It may have left while its body was read; no further event would tell.
    if (c->read->pending_eof) { ngx_post_event(c->read, &ngx_posted_events); }
}

// ---- what the store says ----

// The stream may be gone after each of these.
void EventsStream::on_store_answer(ngx_uint_t status, std::string&& body) noexcept {
    ngx_connection_t* c = request_->connection;
    ngx_http_set_log_request(c->log, request_);
    if (status == NGX_HTTP_OK) {
        begin();
    } else {
        ngx_http_finalize_request(request_, send_json(request_, status, body));
    }
    ngx_http_run_posted_requests(c);
}

void EventsStream::on_store_frames(std::string&& frames) noexcept {
    if (!is_started_ || is_ending_) return;
    ngx_connection_t* c = request_->connection;
    ngx_http_set_log_request(c->log, request_);
    is_asked_ = false;
    if (has_unsent()) {
        waiting_ = std::move(frames);
    } else {
        send(std::move(frames));
        go_on();
    }
    ngx_http_run_posted_requests(c);
}

void EventsStream::on_store_quit() noexcept {
    ngx_connection_t* c = request_->connection;
    is_ending_ = true;
    if (!is_started_) return;
    go_on();
    ngx_http_run_posted_requests(c);
}

void EventsStream::begin() noexcept {
    ngx_http_request_t* r = request_;
    ngx_connection_t* c = r->connection;
    const ngx_int_t rc = send_event_stream_head(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) return ngx_http_finalize_request(r, rc);
    r->write_event_handler = on_writable;
    c->log->action = const_cast<char*>("sending events to client");
    is_started_ = true;
    if (core_settings(r)->tcp_nodelay && r->stream == nullptr && ngx_tcp_nodelay(c) != NGX_OK) has_failed_ = true;
    is_ending_ = is_ending_ || store()->is_quitting();
    guarded(c->log, "starting a stream", [&] {
        std::string first;
        const ngx_msec_t retry = location_settings(r)->retry;
        if (retry != NGX_CONF_UNSET_MSEC) append_retry(first, retry);
        append_comment(first, "");
        send(std::move(first));
        return NGX_OK;
    });
    go_on();
}

// ---- sending ----

bool EventsStream::has_unsent() const noexcept { return is_output_left(request_, buffer_); }

void EventsStream::send(std::string&& text) noexcept {
    if (has_failed_) return;
    text_ = std::move(text);
    wrap_text(buffer_, text_);
    last_sent_ = ngx_current_msec;
    ngx_chain_t out{&buffer_, nullptr};
    if (ngx_http_output_filter(request_, &out) == NGX_ERROR) has_failed_ = true;
}

void EventsStream::flush() noexcept {
    ngx_connection_t* c = request_->connection;
    const off_t sent_before = c->sent;
    if (ngx_http_output_filter(request_, nullptr) == NGX_ERROR) has_failed_ = true;
    if (c->sent == sent_before) return;
    last_sent_ = ngx_current_msec;
    restart_send_timeout(c);
}

// Does what comes next once something was sent. The stream may be gone after it.
void EventsStream::go_on() noexcept {
    if (has_failed_) return end(NGX_HTTP_CLIENT_CLOSED_REQUEST);
    if (!has_unsent() && !waiting_.empty()) send(std::exchange(waiting_, {}));
    if (has_failed_) return end(NGX_HTTP_CLIENT_CLOSED_REQUEST);
    if (has_unsent()) return wait_for_socket();
    text_ = std::string();
    if (is_ending_) return end(ngx_http_send_special(request_, NGX_HTTP_LAST));
    arm_ping(ping_);
    if (is_asked_) return;
    is_asked_ = true;
    guarded(request_->connection->log, "asking for events", [this] {
        store()->ask_for_frames(*this);
        return NGX_OK;
    });
}

void EventsStream::wait_for_socket() noexcept {
    if (!durable::wait_for_socket(request_->connection, send_timeout_)) end(NGX_HTTP_CLIENT_CLOSED_REQUEST);
}

void EventsStream::arm_ping(ngx_msec_t after) noexcept { durable::arm_ping(request_->connection, ping_, after); }

// ---- events of the connection ----

void EventsStream::on_readable(ngx_http_request_t* r) noexcept { ngx_http_test_reading(r); }

void EventsStream::on_writable(ngx_http_request_t* r) noexcept {
    EventsStream& stream = of(r);
    ngx_event_t* wev = r->connection->write;
    if (wev->timedout) {
        wev->timedout = 0;
        return stream.on_timer();
    }
    if (wev->delayed) return;
    if (stream.has_unsent()) {
        stream.flush();
        stream.go_on();
    } else if (!wev->timer_set) {
        stream.arm_ping(stream.ping_);
    }
}

void EventsStream::on_timer() noexcept {
    if (has_unsent()) {
        ngx_log_error(NGX_LOG_INFO, request_->connection->log, NGX_ETIMEDOUT, "client timed out");
        request_->connection->timedout = 1;
        return end(NGX_HTTP_REQUEST_TIME_OUT);
    }
    const ngx_msec_t idle = ngx_current_msec - last_sent_;
    if (idle < ping_) return arm_ping(ping_ - idle);
    guarded(request_->connection->log, "a ping", [this] {
        std::string ping;
        append_comment(ping, "");
        send(std::move(ping));
        return NGX_OK;
    });
    go_on();
}

void EventsStream::end(ngx_int_t rc) noexcept {
    request_->connection->write->cancelable = 0;
    ngx_http_finalize_request(request_, rc);
}

}  // namespace durable
