// SPDX-License-Identifier: BSD-2-Clause
// One client's event stream: sends frames to its socket, holds what the socket did not take, pings
// it when it is idle, and notices when it leaves. Lives in the request's pool.
#pragma once

#include "ngx_module/settings.h"

namespace durable {

class ReaderGroup;

// How frames stand in a batch: as they are, or each as an HTTP/1.1 chunk of its own.
enum class Framing : std::uint8_t { raw, chunked };

// Frames for all members of a group, made once.
struct FrameBatch {
    std::string bytes;
    std::vector<std::size_t> ends;  // where each frame ends in `bytes`

    void clear() noexcept {
        bytes.clear();
        ends.clear();
    }
    // Ends the frame that was appended from `from` on.
    void end_frame(std::size_t from, Framing framing);
};

class SubscribedStream {
public:
    SubscribedStream(ngx_http_request_t* r, const LocationSettings& settings) noexcept;
    ~SubscribedStream();

    Framing framing() const noexcept { return framing_; }
    bool is_blocked() const noexcept { return !unsent_.empty(); }
    bool has_failed() const noexcept { return has_failed_; }

    // Sends `first` behind the head, and takes the request over.
    void start(std::string_view first) noexcept;

    // Sends the frames and returns how many were accepted: those behind them were not touched.
    // What the socket did not take of an accepted one is kept. Look at `has_failed` too.
    std::size_t send(const FrameBatch& batch);

    // Ends the response once all is sent, with a word if it was dropped for its backlog (C-27). The
    // stream may be gone after it.
    void finish(bool was_dropped = false) noexcept;
    // Closes a failed one. The stream is gone after it.
    void close() noexcept;

    // Leaves its group; no message comes any more.
    void detach() noexcept;

private:
    friend class ReaderGroup;
    friend class ReaderGroups;

    static void on_readable(ngx_http_request_t* r) noexcept;
    static void on_writable(ngx_http_request_t* r) noexcept;
    static SubscribedStream& of(ngx_http_request_t* r) noexcept;

    std::size_t send_directly(std::string_view bytes) noexcept;
    void send_filtered(std::string_view bytes);
    void flush();
    bool has_filtered_bytes() const noexcept;
    void send_alone(void (*append_frame)(std::string&)) noexcept;
    void keep_unsent(std::string_view bytes);
    void on_progress() noexcept;
    void wait_for_socket() noexcept;
    void arm_ping(ngx_msec_t after) noexcept;
    void on_timer() noexcept;
    void after_flush() noexcept;
    void end_request(ngx_int_t rc) noexcept;

    ngx_http_request_t* request_;
    ReaderGroup* group_ = nullptr;
    ngx_queue_t group_link_;
    std::string unsent_;         // from unsent_at_ on
    std::size_t unsent_at_ = 0;
    ngx_buf_t filtered_{};       // unsent_, while the filters have it
    ngx_msec_t last_sent_ = 0;
    ngx_msec_t ping_;
    ngx_msec_t send_timeout_;
    Framing framing_;
    bool is_direct_;             // straight to the socket, past the filters
    bool is_in_filters_ = false;
    bool is_starting_ = false;   // the content handler is at work, and the request outlives it
    bool is_ending_ = false;
    bool was_dropped_ = false;   // and has not been told
    bool has_failed_ = false;
};

}  // namespace durable
