// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/subscribed_stream.h"

#include <algorithm>

#include "core/sse_frame.h"
#include "ngx_module/log.h"
#include "ngx_module/reader_group.h"
#include "ngx_module/request_context.h"
#include "ngx_module/stream_output.h"

namespace durable {

namespace {

// A plain HTTP/1 socket with no rate limit takes frames as they are; TLS and HTTP/2 go through the
// filters.
bool can_send_directly(ngx_http_request_t* r) noexcept {
    const ngx_http_core_loc_conf_t* core = core_settings(r);
    return r->connection->ssl == nullptr && r->stream == nullptr && r->limit_rate == 0 &&
           core->limit_rate == nullptr;
}

}  // namespace

void FrameBatch::end_frame(std::size_t from, Framing framing) {
    if (framing == Framing::chunked) {
        char head[20];
        const u_char* end = ngx_snprintf(reinterpret_cast<u_char*>(head), sizeof head, "%xz" CRLF, bytes.size() - from);
        bytes.insert(from, head, static_cast<std::size_t>(reinterpret_cast<const char*>(end) - head));
        bytes.append(CRLF);
    }
    ends.push_back(bytes.size());
}

SubscribedStream::SubscribedStream(ngx_http_request_t* r, const LocationSettings& settings) noexcept
    : request_(r), ping_(settings.ping), send_timeout_(core_settings(r)->send_timeout), is_direct_(can_send_directly(r)) {
    const bool is_chunked = r->http_version >= NGX_HTTP_VERSION_11 && core_settings(r)->chunked_transfer_encoding;
    framing_ = is_direct_ && is_chunked ? Framing::chunked : Framing::raw;
}

SubscribedStream::~SubscribedStream() {
    detach();
    request_->connection->write->cancelable = 0;
}

void SubscribedStream::detach() noexcept {
    if (group_ != nullptr) group_->remove(*this);
}

SubscribedStream& SubscribedStream::of(ngx_http_request_t* r) noexcept {
    return *RequestContext::find(r)->subscribed;
}

void SubscribedStream::start(std::string_view first) noexcept {
    ngx_http_request_t* r = request_;
    ngx_connection_t* c = r->connection;
    r->read_event_handler = on_readable;
    r->write_event_handler = on_writable;
    c->log->action = const_cast<char*>("sending events to client");
    is_starting_ = true;
    if (core_settings(r)->tcp_nodelay && r->stream == nullptr && ngx_tcp_nodelay(c) != NGX_OK) has_failed_ = true;
    guarded(c->log, "starting a stream", [&] {
        if (!has_failed_) send_filtered(first);
        return NGX_OK;
    });
    if (has_failed_) {
        close();
    } else if (ngx_exiting) {
        finish();  // asked for when the worker was already to quit: a new one is to serve it
    } else if (is_blocked()) {
        group_->on_member_blocked(*this);
    } else {
        arm_ping(ping_);
        group_->on_member_ready();
    }
    is_starting_ = false;
}

// ---- sending ----

// A frame for this stream only.
void SubscribedStream::send_alone(void (*append_frame)(std::string&)) noexcept {
    guarded(request_->connection->log, "sending an event", [&] {
        FrameBatch one;
        append_frame(one.bytes);
        one.end_frame(0, framing_);
        send(one);
        return NGX_OK;
    });
}

std::size_t SubscribedStream::send(const FrameBatch& batch) {
    if (!is_direct_) {
        send_filtered(batch.bytes);
        return batch.ends.size();
    }
    const std::size_t sent = send_directly(batch.bytes);
    if (has_failed_ || sent == batch.bytes.size()) return batch.ends.size();
    // The first frame that is not sent, or not whole, belongs to this stream now; those behind it do not.
    const auto end = std::upper_bound(batch.ends.begin(), batch.ends.end(), sent);
    keep_unsent(std::string_view(batch.bytes).substr(sent, *end - sent));
    wait_for_socket();
    return static_cast<std::size_t>(end - batch.ends.begin()) + 1;
}

// Returns how many bytes the socket took.
std::size_t SubscribedStream::send_directly(std::string_view bytes) noexcept {
    ngx_connection_t* c = request_->connection;
    if (!c->write->ready) return 0;
    const ssize_t n = c->send(c, reinterpret_cast<u_char*>(const_cast<char*>(bytes.data())), bytes.size());
    if (n == NGX_ERROR) has_failed_ = true;
    if (n <= 0) return 0;
    on_progress();
    return static_cast<std::size_t>(n);
}

void SubscribedStream::keep_unsent(std::string_view bytes) {
    unsent_.assign(bytes);
    unsent_at_ = 0;
}

void SubscribedStream::send_filtered(std::string_view bytes) {
    keep_unsent(bytes);
    wrap_text(filtered_, unsent_);
    is_in_filters_ = true;
    ngx_chain_t out{&filtered_, nullptr};
    if (ngx_http_output_filter(request_, &out) == NGX_ERROR) has_failed_ = true;
    flush();
}

bool SubscribedStream::has_filtered_bytes() const noexcept { return is_output_left(request_, filtered_); }

// Sends what was kept. Without a failure, `is_blocked` says whether there is still some.
void SubscribedStream::flush() {
    ngx_connection_t* c = request_->connection;
    const off_t sent_before = c->sent;
    if (is_in_filters_) {
        if (!has_failed_ && has_filtered_bytes() && ngx_http_output_filter(request_, nullptr) == NGX_ERROR) has_failed_ = true;
        if (has_failed_) return;
        if (c->sent != sent_before || !has_filtered_bytes()) on_progress();
        if (has_filtered_bytes()) return wait_for_socket();
        is_in_filters_ = false;
    } else if (is_blocked()) {
        unsent_at_ += send_directly(std::string_view(unsent_).substr(unsent_at_));
        if (has_failed_) return;
        if (unsent_at_ < unsent_.size()) return wait_for_socket();
    }
    unsent_ = std::string();
}

void SubscribedStream::on_progress() noexcept {
    last_sent_ = ngx_current_msec;
    if (is_blocked()) restart_send_timeout(request_->connection);
}

void SubscribedStream::wait_for_socket() noexcept {
    if (!durable::wait_for_socket(request_->connection, send_timeout_)) has_failed_ = true;
}

void SubscribedStream::arm_ping(ngx_msec_t after) noexcept { durable::arm_ping(request_->connection, ping_, after); }

// ---- events of the connection ----

void SubscribedStream::on_readable(ngx_http_request_t* r) noexcept { ngx_http_test_reading(r); }

void SubscribedStream::on_writable(ngx_http_request_t* r) noexcept {
    SubscribedStream& stream = of(r);
    ngx_event_t* wev = r->connection->write;
    if (wev->timedout) {
        wev->timedout = 0;
        return stream.on_timer();
    }
    if (wev->delayed) return;
    if (stream.is_blocked()) return stream.after_flush();
    if (!wev->timer_set) stream.arm_ping(stream.ping_);
}

void SubscribedStream::after_flush() noexcept {
    guarded(request_->connection->log, "sending events", [this] {
        flush();
        return NGX_OK;
    });
    if (has_failed_) return close();
    if (is_blocked()) return;
    if (is_ending_) return finish();
    arm_ping(ping_);
    group_->on_member_ready();
}

void SubscribedStream::on_timer() noexcept {
    if (is_blocked()) {
        ngx_log_error(NGX_LOG_INFO, request_->connection->log, NGX_ETIMEDOUT, "client timed out");
        request_->connection->timedout = 1;
        return close();
    }
    const ngx_msec_t idle = ngx_current_msec - last_sent_;
    if (idle < ping_) return arm_ping(ping_ - idle);
    send_alone([](std::string& out) { append_comment(out, ""); });
    if (has_failed_) return close();
    if (is_blocked()) return group_->on_member_blocked(*this);
    arm_ping(ping_);
}

// ---- the end ----

void SubscribedStream::finish(bool was_dropped) noexcept {
    detach();
    is_ending_ = true;
    was_dropped_ = was_dropped_ || was_dropped;
    if (!is_blocked() && was_dropped_) {
        was_dropped_ = false;
        send_alone(append_backlog_frame);
        if (has_failed_) return close();
    }
    if (is_blocked()) return;
    end_request(ngx_http_send_special(request_, NGX_HTTP_LAST));
}

void SubscribedStream::close() noexcept {
    detach();
    end_request(request_->connection->timedout ? NGX_HTTP_REQUEST_TIME_OUT : NGX_HTTP_CLIENT_CLOSED_REQUEST);
}

// A failure is finished by a posted request, which nginx runs behind the handlers of the connection's
// own events only; while the content handler is at work it must not run.
void SubscribedStream::end_request(ngx_int_t rc) noexcept {
    ngx_connection_t* c = request_->connection;
    const bool is_in_content_handler = is_starting_;
    c->write->cancelable = 0;
    ngx_http_finalize_request(request_, rc);
    if (!is_in_content_handler) ngx_http_run_posted_requests(c);
}

}  // namespace durable
