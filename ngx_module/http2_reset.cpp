// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/http2_reset.h"

namespace durable {

namespace {

constexpr unsigned char kResetStream = 3;    // RFC 9113, 6.4
constexpr unsigned char kInternalError = 2;  // as nginx for a response that it cuts off
constexpr std::size_t kFrameSize = 9 + 4;

// Called each time some of the queue has been sent. The request cannot be freed while the stream
// has something queued.
ngx_int_t on_frame_sent(ngx_http_v2_connection_t*, ngx_http_v2_out_frame_t* frame) noexcept {
    const ngx_buf_t* buffer = frame->first->buf;
    if (buffer->pos != buffer->last) return NGX_AGAIN;
    ngx_http_v2_stream_t* stream = frame->stream;
    stream->rst_sent = 1;
    stream->out_closed = 1;
    --stream->queued;
    if (stream->waiting || stream->blocked) return NGX_OK;
    ngx_event_t* wev = stream->request->connection->write;
    wev->active = 0;
    wev->ready = 1;
    ngx_post_event(wev, &ngx_posted_events);
    return NGX_OK;
}

void write_frame(ngx_buf_t& buffer, std::uint32_t id) noexcept {
    const unsigned char frame[kFrameSize] = {
        0, 0, 4, kResetStream, 0,
        static_cast<unsigned char>(id >> 24), static_cast<unsigned char>(id >> 16),
        static_cast<unsigned char>(id >> 8), static_cast<unsigned char>(id),
        0, 0, 0, kInternalError};
    buffer.last = ngx_cpymem(buffer.last, frame, kFrameSize);
}

}  // namespace

bool reset_http2_stream(ngx_http_request_t* r) noexcept {
    ngx_http_v2_stream_t* stream = r->stream;
    ngx_http_v2_connection_t* connection = stream->connection;
    auto* frame = static_cast<ngx_http_v2_out_frame_t*>(ngx_pcalloc(r->pool, sizeof(ngx_http_v2_out_frame_t)));
    ngx_buf_t* buffer = ngx_create_temp_buf(r->pool, kFrameSize);
    ngx_chain_t* link = ngx_alloc_chain_link(r->pool);
    if (frame == nullptr || buffer == nullptr || link == nullptr) return false;
    write_frame(*buffer, static_cast<std::uint32_t>(stream->node->id));
    buffer->flush = 1;
    link->buf = buffer;
    link->next = nullptr;
    frame->first = frame->last = link;
    frame->handler = on_frame_sent;
    frame->stream = stream;
    frame->length = 0;  // nothing of it counts for flow control
    ngx_http_v2_queue_frame(connection, frame);
    ++stream->queued;
    stream->blocked = 1;
    static_cast<void>(ngx_http_v2_send_output_queue(connection));
    stream->blocked = 0;
    return true;
}

}  // namespace durable
