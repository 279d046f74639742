// SPDX-License-Identifier: BSD-2-Clause
// How a stream stands between nginx's upstream code and the client: whose handlers run, and what
// becomes of the answer that nobody gets.
#include "ngx_module/event_stream.h"
#include "ngx_module/filters.h"
#include "ngx_module/upstream_tries.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

// A bit of r->buffered that nginx's own filters leave alone: the request is not finished yet.
constexpr unsigned kHeldBit = 0x08;

// What ngx_http_test_reading does, without finalizing.
bool has_client_left(ngx_http_request_t* r) noexcept {
    ngx_connection_t* c = r->connection;
    if (r->stream != nullptr) return c->error;
    if (c->read->pending_eof) return true;
#if (NGX_HAVE_EPOLLRDHUP)
    if ((ngx_event_flags & NGX_USE_EPOLL_EVENT) && ngx_use_epoll_rdhup) return false;
#endif
    char byte;
    const ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK);
    return n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN);
}

// With select and poll an event that nobody takes would come again and again.
void drop_level_event(ngx_event_t* event, ngx_int_t kind) noexcept {
    if ((ngx_event_flags & NGX_USE_LEVEL_EVENT) && event->active) static_cast<void>(ngx_del_event(event, kind, 0));
}

// Marks the buffers as sent. Returns whether there was anything in them.
bool swallow(ngx_chain_t* in, bool& is_last) noexcept {
    bool has_bytes = false;
    for (; in != nullptr; in = in->next) {
        ngx_buf_t* buffer = in->buf;
        if (ngx_buf_size(buffer) != 0) has_bytes = true;
        buffer->pos = buffer->last;
        buffer->file_pos = buffer->file_last;
        if (buffer->last_buf) is_last = true;
    }
    return has_bytes;
}

// An upstream that has been finalized may still be the request's.
bool is_running(const ngx_http_upstream_t* u) noexcept {
    return u != nullptr && u->cleanup != nullptr && u->peer.connection != nullptr;
}

}  // namespace

EventStream* EventStream::of(ngx_http_request_t* r) noexcept { return RequestContext::find(r)->stream; }

// ---- handlers ----

// Runs code of nginx's that may put its own handlers back, or end the request and this object with
// it. That code must never wait for the client: what it sends there is swallowed at once.
template <class Call>
void EventStream::run_nginx(Call&& call) noexcept {
    ngx_event_t* wev = request_->connection->write;
    const bool was_ready = wev->ready;
    const bool was_delayed = wev->delayed;
    bool is_destroyed = false;
    is_destroyed_ = &is_destroyed;
    wev->ready = 1;
    wev->delayed = 0;
    call();
    if (is_destroyed) return;
    is_destroyed_ = nullptr;
    // A write event that is not active would be added again, which HTTP/2's connections cannot bear.
    if (!was_ready && wev->active) wev->ready = 0;
    if (was_delayed) {
        wev->delayed = 1;
        ngx_add_timer(wev, 1);
    }
    take_over();
}

// Puts our handlers in front of nginx's, which it sets again when its upstream begins to answer.
void EventStream::take_over() noexcept {
    ngx_http_request_t* r = request_;
    ngx_http_upstream_t* u = r->upstream;
    if (is_over_ || !is_running(u)) return;
    hold_upstream(u);
    if (r->read_event_handler != on_client_readable) client_read_ = r->read_event_handler;
    r->read_event_handler = on_client_readable;
    r->write_event_handler = on_client_writable;
    r->limit_rate = sent_head_.limit_rate;
    r->connection->log->action = const_cast<char*>("sending an event stream");
    if (!r->reading_body && ngx_handle_read_event(r->connection->read, 0) != NGX_OK) on_client_left();
    if (!is_gone_ && !r->reading_body && has_client_left(r)) on_client_left();
    pump();
}

// The application is asked once and for as long as its event lasts, and its answer is nobody's
// (S-22a).
void EventStream::hold_upstream(ngx_http_upstream_t* u) noexcept {
    if (u != upstream_) {
        upstream_ = u;
        u->store = 0;
#if (NGX_HTTP_CACHE)
        u->cacheable = 0;
        // Neither a stale answer nor a revalidation may come in its place.
        if (request_->cache != nullptr) {
            u->cache_status = NGX_HTTP_CACHE_MISS;
            ngx_http_file_cache_free(request_->cache, nullptr);
        }
#endif
    }
    forbid_retries(*u);
    if (u->read_event_handler != on_upstream_readable) upstream_read_ = u->read_event_handler;
    if (u->write_event_handler != on_upstream_writable) upstream_write_ = u->write_event_handler;
    u->read_event_handler = on_upstream_readable;
    u->write_event_handler = on_upstream_writable;
}

void EventStream::on_upstream_readable(ngx_http_request_t* r, ngx_http_upstream_t* u) noexcept {
    ngx_event_t* rev = u->peer.connection->read;
    if (rev->timedout) {
        rev->timedout = 0;  // durable_event_timeout stands in its place
        return;
    }
    EventStream* stream = of(r);
    stream->run_nginx([=] { stream->upstream_read_(r, u); });
}

void EventStream::on_upstream_writable(ngx_http_request_t* r, ngx_http_upstream_t* u) noexcept {
    ngx_event_t* wev = u->peer.connection->write;
    if (wev->timedout) {
        wev->timedout = 0;
        return;
    }
    EventStream* stream = of(r);
    stream->run_nginx([=] { stream->upstream_write_(r, u); });
}

void EventStream::on_client_readable(ngx_http_request_t* r) noexcept {
    EventStream* stream = of(r);
    // With proxy_request_buffering off nginx reads the request's body here.
    if (r->reading_body) return stream->run_nginx([=] { stream->client_read_(r); });
    if (!stream->is_gone_ && has_client_left(r)) {
        stream->on_client_left();
        stream->pump();
    }
    drop_level_event(r->connection->read, NGX_READ_EVENT);
}

void EventStream::on_client_writable(ngx_http_request_t* r) noexcept {
    EventStream* stream = of(r);
    ngx_connection_t* c = r->connection;
    if (c->write->timedout) {
        c->write->timedout = 0;
        if (!stream->is_gone_) {
            ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT, "client timed out");
            c->timedout = 1;
            stream->on_client_left();
        }
    }
    if (!stream->is_gone_ && r->stream != nullptr && c->error) stream->on_client_left();
    if (stream->is_gone_) {
        drop_level_event(c->write, NGX_WRITE_EVENT);
        return stream->pump();
    }
    if (c->write->delayed) return stream->arm_client();
    stream->flush();
    stream->pump();
    stream->cut();
}

// ---- timers ----

// S-22: the request ends here, and with it the application's connection.
void EventStream::on_limit(ngx_event_t* event) noexcept {
    auto* stream = static_cast<EventStream*>(event->data);
    ngx_http_request_t* r = stream->request_;
    ngx_connection_t* c = r->connection;
    stream->settle("its event has reached durable_event_timeout");
    // As nginx does before it gives a request another upstream.
    if (r->upstream != nullptr && r->upstream->cleanup != nullptr) {
        ++r->main->count;
        (*r->upstream->cleanup)(r);
    }
    ngx_http_finalize_request(r, stream->finish());
    ngx_http_run_posted_requests(c);
}

void EventStream::on_cut_timer(ngx_event_t* event) noexcept {
    auto* stream = static_cast<EventStream*>(event->data);
    ngx_http_request_t* r = stream->request_;
    ngx_connection_t* c = r->connection;
    stream->cut();
    if (!stream->is_cut_ || !stream->is_over_) return;
    r->buffered &= ~kHeldBit;
    ngx_http_finalize_request(r, NGX_ERROR);
    ngx_http_run_posted_requests(c);
}

// ---- the answer that nobody gets ----

// Whatever answers has written its own head into headers_out, and the access log would show it.
void EventStream::restore_head() noexcept {
    ngx_http_headers_out_t& out = request_->headers_out;
    out = sent_head_.headers;
    out.headers.last->nelts = sent_head_.last_part_size;
    out.headers.last->next = nullptr;
    request_->err_status = 0;
}

// S-9
void EventStream::warn_of_answer(const char* what) noexcept {
    if (is_answer_noted_) return;
    is_answer_noted_ = true;
    ngx_log_error(NGX_LOG_WARN, request_->connection->log, 0,
                  "durable: the application's own answer behind its event stream is dropped: %s", what);
}

ngx_int_t EventStream::on_answer_head() noexcept {
    ngx_http_request_t* r = request_;
    if (r->headers_out.status >= NGX_HTTP_BAD_REQUEST) warn_of_answer("it has failed");
    restore_head();
    // A tunnel would go past the filters.
    if (r->upstream != nullptr) r->upstream->upgrade = 0;
    if (!r->header_only) return NGX_OK;
    settle("its application has answered");
    return finish();
}

ngx_int_t EventStream::on_answer_body(ngx_chain_t* in) noexcept {
    bool is_last = false;
    if (swallow(in, is_last)) warn_of_answer("it is not empty");
    // An upstream that fails behind its head is finalized without a last buffer.
    const bool has_failed = !is_last && request_->upstream != nullptr && request_->upstream->cleanup == nullptr;
    if (!is_over_) {
        if (!is_last && !has_failed) return NGX_OK;
        if (has_failed) warn_of_answer("it has failed");
        settle("its application has answered");
    }
    return finish();
}

ngx_int_t EventStream::on_redirect() noexcept {
    warn_of_answer("it has failed or is an internal redirect");
    restore_head();
    settle("its application has answered or failed");
    return finish();
}

// The event is over. nginx has the request back and only what was accepted is still sent.
void EventStream::settle(const char* why) noexcept {
    if (is_over_) return;
    is_over_ = true;
    abort_unfinished(why);
    if (limit_timer_.timer_set) ngx_del_timer(&limit_timer_);
    context_.end_event();
}

// What a filter returns once the event is over: NGX_AGAIN while something is to be done before the
// request ends, NGX_ERROR to close without the final chunk or to reset the HTTP/2 stream.
ngx_int_t EventStream::finish() noexcept {
    ngx_http_request_t* r = request_;
    r->buffered &= ~kHeldBit;
    flush();
    cut();
    if (is_gone_) return NGX_ERROR;
    if (r->header_only) return NGX_OK;
    if (state_ == State::ended) return has_unsent() ? NGX_AGAIN : NGX_OK;
    if (is_cut_) return NGX_ERROR;
    r->buffered |= kHeldBit;
    return NGX_AGAIN;
}

// The last moment before the access log is written.
void EventStream::on_request_done(void* data) noexcept {
    auto* stream = static_cast<EventStream*>(data);
    stream->restore_head();
    stream->settle("its request has ended");
}

}  // namespace durable
