// SPDX-License-Identifier: BSD-2-Clause
// The content handler of `durable_api`: finds the call that a request means, who is calling, reads
// the body, and has the call's function answer. One row of host_calls.cpp for each call.
#pragma once

#include "core/errors.h"
#include "ngx_module/host_call.h"

namespace durable {

// Who may make a call: an event with its token only, whoever reaches a location with an object too, or
// whoever reaches the location at all.
enum class CalledBy : std::uint8_t { event, event_or_object, anyone };

struct HostCallRow {
    ngx_uint_t methods;        // NGX_HTTP_… bits
    std::string_view pattern;  // below the location's prefix; `{}` is any one segment
    CalledBy called_by;
    HostCall::Work work;
    std::size_t max_body;      // bytes; 0: the call has no body, one that comes is ignored
    ErrorCode too_large;       // for a larger one
};

ngx_int_t on_api_request(ngx_http_request_t* r) noexcept;

// What a body that nginx itself refused for its size (413) was too large for.
ErrorCode too_large_error(ngx_http_request_t* r);

// ---- host_calls_channels.cpp ----
void subscribe_call(HostCall& call);
void count_call(HostCall& call);
void publish_call(HostCall& call);
void history_call(HostCall& call);
void close_call(HostCall& call);
void wait_call(HostCall& call);
void cancel_call(HostCall& call);

// ---- host_calls_sections.cpp ----
void exclusive_call(HostCall& call);
void section_call(HostCall& call);
void section_result_call(HostCall& call);

// ---- host_calls_streams.cpp ----
void start_stream_call(HostCall& call);
void write_stream_call(HostCall& call);
void stream_state_call(HostCall& call);
void end_stream_call(HostCall& call);
void abort_stream_call(HostCall& call);

// ---- host_calls_events.cpp ----
void publish_event_call(HostCall& call);
void suspend_call(HostCall& call);
void resume_call(HostCall& call);

}  // namespace durable
