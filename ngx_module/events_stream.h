// SPDX-License-Identifier: BSD-2-Clause
// GET stream of the events API (E-30): a client's live deliveries as server-sent events. The store
// hands over one batch of frames at a time and waits until it is out, so that a slow client costs one
// batch. Lives in the request's pool.
#pragma once

#include "ngx_module/event_store.h"

namespace durable {

// Returns what to finalize the request with; NGX_DONE: the stream has it.
ngx_int_t open_events_stream(ngx_http_request_t* r, EventStore& store, Caller caller);

class EventsStream final : public StoreClient {
public:
    explicit EventsStream(ngx_http_request_t* r) noexcept;
    ~EventsStream();

    void park() noexcept;

    void on_store_answer(ngx_uint_t status, std::string&& body) noexcept override;
    void on_store_frames(std::string&& frames) noexcept override;
    void on_store_quit() noexcept override;

private:
    static EventsStream& of(ngx_http_request_t* r) noexcept;
    static void on_readable(ngx_http_request_t* r) noexcept;
    static void on_writable(ngx_http_request_t* r) noexcept;

    void begin() noexcept;
    void send(std::string&& text) noexcept;
    void flush() noexcept;
    void go_on() noexcept;
    bool has_unsent() const noexcept;
    void wait_for_socket() noexcept;
    void arm_ping(ngx_msec_t after) noexcept;
    void on_timer() noexcept;
    void end(ngx_int_t rc) noexcept;

    ngx_http_request_t* request_;
    std::string text_;     // what buffer_ points into
    ngx_buf_t buffer_{};   // nginx keeps links to it, so it is used again and again
    std::string waiting_;  // frames that came before all else was out
    ngx_msec_t last_sent_ = 0;
    ngx_msec_t ping_;
    ngx_msec_t send_timeout_;
    bool is_started_ = false;
    bool is_asked_ = true;  // the store may send frames
    bool is_ending_ = false;
    bool has_failed_ = false;
};

}  // namespace durable
