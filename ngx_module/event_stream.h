// SPDX-License-Identifier: BSD-2-Clause
// An event's answer as an event stream (spec S-1 to S-23). It takes over the request that an upstream
// is still serving: the head and the texts go to the client from here, the upstream goes on, and what
// it answers in the end is swallowed. Lives in the request's pool, in the event's own worker. Whatever
// it needs of the zone's lock it takes itself.
#pragma once

#include <deque>

#include "core/json_text.h"
#include "core/mailbox.h"
#include "ngx_module/request_context.h"

namespace durable {

class EventStream {
public:
    // S-8: whether the event may start one.
    [[nodiscard]] static ErrorCode check_start(const RequestContext& context) noexcept;

    // `handle`: what the application names it by; not 0.
    EventStream(RequestContext& context, std::uint64_t handle) noexcept;
    ~EventStream();
    EventStream(const EventStream&) = delete;

    // S-1: sends the head and takes the request over. On an error nothing has been committed (S-6)
    // and the object must not be used any more.
    [[nodiscard]] ErrorCode start(const StreamStart& head);

    std::uint64_t handle() const noexcept { return handle_; }
    // S-11: 0 open, 1 the client has gone, 2 ended or aborted.
    int status() const noexcept;
    // S-16
    bool is_disconnected() const noexcept { return is_disconnected_; }

    // S-10, S-13: sends `command.text`; the command is answered with the status, at once or later.
    void write(Command command);
    // S-18
    void end() noexcept;
    // S-19: `reason` is valid UTF-8.
    void abort(std::string_view reason) noexcept;

    // For the filters: the head and the body of whatever else answers the request.
    ngx_int_t on_answer_head() noexcept;
    ngx_int_t on_answer_body(ngx_chain_t* in) noexcept;
    // For the gate: the request was redirected, since its application has answered or failed. Returns
    // what to finalize the request with.
    ngx_int_t on_redirect() noexcept;

private:
    enum class State : std::uint8_t { open, ended, aborted };
    // A text on its way. nginx keeps links to a buffer after it is sent, so buffers are used again
    // and never freed.
    struct Output {
        ngx_buf_t* buffer = nullptr;
        std::string text;
    };
    struct WaitingWrite {
        Command command;
        bool is_passed_on = false;  // its text is on its way, but more of it than the buffer may hold
    };
    // headers_out as the stream's head left it.
    struct SentHead {
        ngx_http_headers_out_t headers;
        ngx_uint_t last_part_size;
        size_t limit_rate;
    };
    using UpstreamHandler = ngx_http_upstream_handler_pt;

    // event_stream.cpp
    bool fill_head(const StreamStart& head) noexcept;
    ErrorCode send_head() noexcept;
    void keep_head() noexcept;
    std::size_t unsent_bytes() const noexcept;
    bool has_unsent() const noexcept { return request_->connection->buffered != 0; }
    ngx_buf_t* take_buffer() noexcept;
    void pass_on(ngx_chain_t* chain) noexcept;
    void send_text(std::string&& text);
    void flush() noexcept;
    void pump() noexcept;
    void admit_writes();
    void answer_writes() noexcept;
    void answer(const Command& command) noexcept;
    void on_client_left() noexcept;
    void arm_client() noexcept;
    void cut() noexcept;
    void abort_unfinished(const char* why) noexcept;

    // event_stream_takeover.cpp
    static EventStream* of(ngx_http_request_t* r) noexcept;
    static void on_client_readable(ngx_http_request_t* r) noexcept;
    static void on_client_writable(ngx_http_request_t* r) noexcept;
    static void on_upstream_readable(ngx_http_request_t* r, ngx_http_upstream_t* u) noexcept;
    static void on_upstream_writable(ngx_http_request_t* r, ngx_http_upstream_t* u) noexcept;
    static void on_request_done(void* data) noexcept;
    static void on_limit(ngx_event_t* event) noexcept;
    static void on_cut_timer(ngx_event_t* event) noexcept;
    template <class Call>
    void run_nginx(Call&& call) noexcept;
    void take_over() noexcept;
    void hold_upstream(ngx_http_upstream_t* u) noexcept;
    void restore_head() noexcept;
    void warn_of_answer(const char* what) noexcept;
    void settle(const char* why) noexcept;
    ngx_int_t finish() noexcept;

    RequestContext& context_;
    ngx_http_request_t* const request_;
    const std::uint64_t handle_;
    const std::size_t buffer_size_;
    const ngx_msec_t send_timeout_;
    State state_ = State::open;
    bool is_disconnected_ = false;  // S-16
    bool is_gone_ = false;          // nothing can be sent any more
    bool is_cut_ = false;           // an abort has taken effect at the client
    bool is_over_ = false;          // the event is over; nginx has the request back
    bool is_answer_noted_ = false;

    std::deque<Output> outputs_;
    std::vector<ngx_buf_t*> free_buffers_;
    std::deque<WaitingWrite> waiting_;
    ngx_buf_t flush_buffer_{};
    ngx_buf_t end_buffer_{};
    off_t sent_before_ = 0;

    SentHead sent_head_;
    ngx_http_upstream_t* upstream_ = nullptr;  // the one that is held
    UpstreamHandler upstream_read_ = nullptr;  // nginx's own handlers, behind ours
    UpstreamHandler upstream_write_ = nullptr;
    ngx_http_event_handler_pt client_read_ = nullptr;
    bool* is_destroyed_ = nullptr;  // told when the request goes while nginx's code runs
    ngx_event_t limit_timer_{};
    ngx_event_t cut_timer_{};
    ngx_msec_t cut_deadline_ = 0;
};

// The head of a stream as a command carries it to the event's worker.
[[nodiscard]] std::string write_stream_head(const StreamStart& head);
[[nodiscard]] StreamStart read_stream_head(std::string_view text);

// Does one of the stream commands for an event of this worker and answers it: `result` is an
// ErrorCode, `text` the handle in decimal (start), the status (write) or 0 and 1 (state).
void execute_stream_command(WorkerZone& zone, RequestContext& context, const Command& command);

}  // namespace durable
