// SPDX-License-Identifier: BSD-2-Clause
// What the application does with its stream, and what the client gets.
#include "ngx_module/event_stream.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "ngx_module/filters.h"
#include "ngx_module/http2_reset.h"
#include "ngx_module/log.h"
#include "ngx_module/pool.h"
#include "ngx_module/response.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

constexpr ngx_msec_t kCutPoll = 20;

bool is_equal_ignoring_case(std::string_view a, const char* b, std::size_t size) noexcept {
    return a.size() == size && ngx_strncasecmp(to_ngx(a).data, reinterpret_cast<u_char*>(const_cast<char*>(b)), size) == 0;
}

// Without chunks and without HTTP/2's frames only a reset tells a cut body from a whole one.
bool is_framed(const ngx_http_request_t* r) noexcept { return r->chunked || r->stream != nullptr; }

// Whether the client's kernel has acknowledged everything: a reset throws away what it has not.
bool is_delivered(ngx_connection_t* c) noexcept {
    int queued = 0;
    return ioctl(c->fd, SIOCOUTQ, &queued) == -1 || queued == 0;
}

// Resets the connection now; its descriptor stays open until nginx closes it.
void reset_connection(ngx_connection_t* c) noexcept {
    linger at_once{1, 0};
    static_cast<void>(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    sockaddr nobody{};
    nobody.sa_family = AF_UNSPEC;
    if (c->sockaddr->sa_family != AF_UNIX) static_cast<void>(connect(c->fd, &nobody, sizeof nobody));
}

// HTTP/2 over TLS leaves a head in the buffer of TLS until a body follows: an empty flush makes no
// frame that could take it along.
void flush_head_of_tls(ngx_http_request_t* r) noexcept {
    if (r->stream == nullptr || r->connection->ssl == nullptr) return;
    static_cast<void>(ngx_http_v2_send_output_queue(r->stream->connection));
}

}  // namespace

ErrorCode EventStream::check_start(const RequestContext& context) noexcept {
    if (context.kind != EventKind::fetch) return ErrorCode::wrong_event_kind;
    if (context.stream != nullptr) return ErrorCode::stream_already_started;
    const ngx_http_request_t* r = context.request;
    const ngx_http_upstream_t* u = r->upstream;
    const bool is_waiting = u != nullptr && u->cleanup != nullptr && !u->header_sent && u->peer.connection != nullptr;
    return r == r->main && is_waiting && !r->header_sent && !r->post_action ? ErrorCode::ok : ErrorCode::response_committed;
}

EventStream::EventStream(RequestContext& context, std::uint64_t handle) noexcept
    : context_(context),
      request_(context.request),
      handle_(handle),
      buffer_size_(context.settings->stream_buffer),
      send_timeout_(core_settings(context.request)->send_timeout) {
    limit_timer_.data = cut_timer_.data = this;
    limit_timer_.log = cut_timer_.log = request_->connection->log;
    limit_timer_.handler = on_limit;
    cut_timer_.handler = on_cut_timer;
}

EventStream::~EventStream() {
    if (context_.stream == this) context_.stream = nullptr;
    if (is_destroyed_ != nullptr) *is_destroyed_ = true;
    if (limit_timer_.timer_set) ngx_del_timer(&limit_timer_);
    if (cut_timer_.timer_set) ngx_del_timer(&cut_timer_);
}

int EventStream::status() const noexcept {
    if (state_ != State::open) return 2;
    return is_disconnected_ ? 1 : 0;
}

// ---- the head ----

ErrorCode EventStream::start(const StreamStart& head) {
    ngx_http_cleanup_t* cleanup = ngx_http_cleanup_add(request_, 0);
    if (cleanup == nullptr) return ErrorCode::no_memory;
    const ngx_http_headers_out_t before = request_->headers_out;
    const ngx_uint_t before_size = before.headers.last->nelts;
    const auto error = fill_head(head) ? send_head() : ErrorCode::no_memory;
    if (error != ErrorCode::ok) {
        request_->headers_out = before;
        request_->headers_out.headers.last->nelts = before_size;
        request_->headers_out.headers.last->next = nullptr;
        return error;
    }
    cleanup->handler = on_request_done;
    cleanup->data = this;
    context_.stream = this;
    keep_head();
    take_over();
    const ngx_msec_int_t left = static_cast<ngx_msec_int_t>(context_.deadline - ngx_current_msec);
    // Not cancelable: a worker that is to quit waits for its open streams.
    ngx_add_timer(&limit_timer_, static_cast<ngx_msec_t>(std::max<ngx_msec_int_t>(left, 1)));
    return ErrorCode::ok;
}

bool EventStream::fill_head(const StreamStart& head) noexcept {
    ngx_http_headers_out_t& out = request_->headers_out;
    out.status = static_cast<ngx_uint_t>(head.status);
    out.status_line.len = 0;
    ngx_str_set(&out.content_type, "text/event-stream; charset=utf-8");
    out.content_type_len = sizeof("text/event-stream") - 1;
    out.content_type_lowcase = nullptr;
    out.charset.len = 0;
    ngx_http_clear_content_length(request_);
    ngx_http_clear_last_modified(request_);
    bool has_cache_control = false;
    for (const auto& [name, value] : head.headers) {
        const ngx_str_t own_name = copy_to_pool(request_->pool, name);
        const ngx_str_t own_value = copy_to_pool(request_->pool, value);
        if (own_name.data == nullptr || own_value.data == nullptr) return false;
        if (!add_header(request_, view(own_name), view(own_value))) return false;
        auto* added = static_cast<ngx_table_elt_t*>(out.headers.last->elts) + out.headers.last->nelts - 1;
        if (is_equal_ignoring_case(name, "Server", 6)) out.server = added;
        if (is_equal_ignoring_case(name, "Date", 4)) out.date = added;
        if (is_equal_ignoring_case(name, "Cache-Control", 13)) has_cache_control = true;
    }
    return has_cache_control || add_header(request_, "Cache-Control", "no-store");
}

ErrorCode EventStream::send_head() noexcept {
    ngx_http_request_t* r = request_;
    // gzip would hold texts back.
    r->gzip_tested = 1;
    r->gzip_ok = 0;
    const ngx_int_t rc = send_header_below(r);
    if (!r->header_sent) return ErrorCode::response_committed;  // a filter keeps it or has refused
    // The upstream sends its own head later and must not find that one has gone out.
    r->header_sent = 0;
    r->err_status = 0;
    ngx_connection_t* c = r->connection;
    if (rc == NGX_ERROR || (core_settings(r)->tcp_nodelay && r->stream == nullptr && ngx_tcp_nodelay(c) != NGX_OK)) {
        c->error = 1;
        on_client_left();
    }
    if (!r->header_only) {
        flush_buffer_.flush = 1;
        ngx_chain_t link{&flush_buffer_, nullptr};
        pass_on(&link);
        flush_head_of_tls(r);
    }
    return ErrorCode::ok;
}

void EventStream::keep_head() noexcept {
    sent_head_.headers = request_->headers_out;
    sent_head_.last_part_size = request_->headers_out.headers.last->nelts;
    sent_head_.limit_rate = request_->limit_rate;
}

// ---- bytes for the client ----

std::size_t EventStream::unsent_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const Output& output : outputs_) bytes += static_cast<std::size_t>(ngx_buf_size(output.buffer));
    return bytes;
}

ngx_buf_t* EventStream::take_buffer() noexcept {
    if (free_buffers_.empty()) return static_cast<ngx_buf_t*>(ngx_calloc_buf(request_->pool));
    ngx_buf_t* buffer = free_buffers_.back();
    free_buffers_.pop_back();
    *buffer = ngx_buf_t();
    return buffer;
}

void EventStream::pass_on(ngx_chain_t* chain) noexcept {
    if (is_gone_) return;
    if (send_body_below(request_, chain) == NGX_ERROR) {
        request_->connection->error = 1;
        return on_client_left();
    }
    while (!outputs_.empty() && ngx_buf_size(outputs_.front().buffer) == 0) {
        guarded(request_->connection->log, "sending a stream", [this] {
            free_buffers_.push_back(outputs_.front().buffer);
            return NGX_OK;
        });
        outputs_.pop_front();
    }
}

void EventStream::send_text(std::string&& text) {
    ngx_buf_t* buffer = take_buffer();
    if (buffer == nullptr) throw std::bad_alloc();
    Output& output = outputs_.emplace_back();
    output.buffer = buffer;
    output.text = std::move(text);
    buffer->start = buffer->pos = reinterpret_cast<u_char*>(&output.text[0]);
    buffer->end = buffer->last = buffer->pos + output.text.size();
    buffer->tag = &ngx_http_durable_module;
    buffer->temporary = 1;
    buffer->flush = 1;
    ngx_chain_t link{buffer, nullptr};
    pass_on(&link);
}

void EventStream::flush() noexcept {
    if (has_unsent()) pass_on(nullptr);
}

// send_timeout counts from the last progress; limit_rate has the same timer for itself.
void EventStream::arm_client() noexcept {
    ngx_connection_t* c = request_->connection;
    ngx_event_t* wev = c->write;
    if (is_gone_) return;
    if (wev->delayed) {
        // The upstream's own code may have taken the timer away.
        if (!wev->timer_set) ngx_add_timer(wev, 1);
    } else if (!has_unsent()) {
        if (wev->timer_set) ngx_del_timer(wev);
    } else if (!wev->timer_set || c->sent != sent_before_) {
        ngx_add_timer(wev, send_timeout_);
    }
    sent_before_ = c->sent;
    if (ngx_handle_write_event(wev, 0) != NGX_OK) on_client_left();
}

// The event runs on: neither is the request finalized nor its connection marked (S-14).
void EventStream::on_client_left() noexcept {
    if (is_gone_) return;
    is_gone_ = true;
    is_disconnected_ = state_ == State::open;
    ngx_event_t* wev = request_->connection->write;
    wev->delayed = 0;
    if (wev->timer_set) ngx_del_timer(wev);
    request_->keepalive = 0;
    ngx_log_error(NGX_LOG_INFO, request_->connection->log, 0, "durable: the client of an event stream has left");
}

// ---- the application's calls ----

void EventStream::answer(const Command& command) noexcept {
    const char digit = static_cast<char>('0' + status());
    context_.zone->commands().answer(command, static_cast<std::int32_t>(ErrorCode::ok), {&digit, 1});
}

void EventStream::write(Command command) {
    if (status() != 0 || command.text.empty() || request_->header_only) return answer(command);
    waiting_.push_back({std::move(command), false});
    pump();
}

// A text larger than the buffer is let through alone, and its write waits until no more than the
// buffer holds is left of it (S-14a).
void EventStream::admit_writes() {
    while (status() == 0 && !waiting_.empty()) {
        WaitingWrite& first = waiting_.front();
        const std::size_t unsent = unsent_bytes();
        if (!first.is_passed_on) {
            if (unsent != 0 && unsent + first.command.text.size() > buffer_size_) return;
            first.is_passed_on = true;
            send_text(std::move(first.command.text));
            continue;
        }
        if (unsent > buffer_size_) return;
        const Command command = std::move(first.command);
        waiting_.pop_front();
        answer(command);
    }
}

void EventStream::pump() noexcept {
    const ngx_int_t rc = guarded(request_->connection->log, "writing to a stream", [this] {
        admit_writes();
        return NGX_OK;
    });
    // Out of memory: what was accepted cannot be continued.
    if (rc != NGX_OK) {
        request_->connection->error = 1;
        on_client_left();
    }
    if (status() != 0) answer_writes();
    arm_client();
}

// Those that wait get the present status; a text that is on its way already counts as written
// unless the client has gone.
void EventStream::answer_writes() noexcept {
    while (!waiting_.empty()) {
        const WaitingWrite first = std::move(waiting_.front());
        waiting_.pop_front();
        if (context_.zone == nullptr) continue;
        if (first.is_passed_on && !is_gone_) {
            context_.zone->commands().answer(first.command, static_cast<std::int32_t>(ErrorCode::ok), "0");
        } else {
            answer(first.command);
        }
    }
}

void EventStream::end() noexcept {
    if (state_ != State::open) return;
    state_ = State::ended;
    answer_writes();
    if (!request_->header_only) {
        end_buffer_.last_buf = 1;
        end_buffer_.last_in_chain = 1;
        ngx_chain_t link{&end_buffer_, nullptr};
        pass_on(&link);
    }
    arm_client();
}

void EventStream::abort(std::string_view reason) noexcept {
    if (state_ != State::open) return;
    guarded(request_->connection->log, "aborting a stream", [&] {
        std::string line = "the application has aborted its event stream: ";
        append_json_string(line, reason);  // a line end in it must not forge a line of the log
        log_line(NGX_LOG_ERR, request_->connection->log, line);  // nginx logs no less by default
        return NGX_OK;
    });
    state_ = State::aborted;
    answer_writes();
    flush();
    cut();
    arm_client();
}

// Lets the client see an abort, once everything before it has gone out (S-19a).
void EventStream::cut() noexcept {
    ngx_http_request_t* r = request_;
    ngx_connection_t* c = r->connection;
    if (state_ != State::aborted || is_cut_ || is_gone_ || has_unsent()) return;
    if (r->header_only) {
        is_cut_ = true;
        return;
    }
    if (!is_framed(r)) {
        if (cut_deadline_ == 0) cut_deadline_ = ngx_current_msec + send_timeout_;
        if (!is_delivered(c) && static_cast<ngx_msec_int_t>(cut_deadline_ - ngx_current_msec) > 0) {
            if (!cut_timer_.timer_set) ngx_add_timer(&cut_timer_, kCutPoll);
            return;
        }
        reset_connection(c);
    } else if (r->stream != nullptr) {
        if (!reset_http2_stream(r)) c->error = 1;
    } else {
        static_cast<void>(ngx_shutdown_socket(c->fd, NGX_WRITE_SHUTDOWN));
    }
#if (NGX_HTTP_SSL)
    // A clean end of TLS would make the cut body look whole.
    if (c->ssl != nullptr && r->stream == nullptr) {
        c->ssl->no_send_shutdown = 1;
        c->ssl->no_wait_shutdown = 1;
    }
#endif
    is_cut_ = true;
    r->keepalive = 0;
}

void EventStream::abort_unfinished(const char* why) noexcept {
    if (state_ != State::open) return;
    const ngx_uint_t level = is_disconnected_ ? NGX_LOG_INFO : NGX_LOG_ERR;
    ngx_log_error(level, request_->connection->log, 0, "durable: an event stream was aborted: %s", why);
    state_ = State::aborted;
    answer_writes();
}

}  // namespace durable
