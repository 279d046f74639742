// SPDX-License-Identifier: BSD-2-Clause
// The one table of every refusal: its HTTP status, its stable code, and its message.
// A code of the interface may have several refusals, each with a message of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace durable {

enum class ErrorCode : std::uint8_t {
    ok,  // no error: the answer of a check that passed

    // host calls, publishing, subscribing
    invalid_object,
    invalid_channel,
    text_starts_with_ff,  // invalid_text
    text_not_utf8,        // invalid_text
    invalid_timeout,
    invalid_status,
    invalid_header_name,   // invalid_header
    invalid_header_value,  // invalid_header
    duplicate_header,      // invalid_header
    too_many_headers,      // invalid_header
    forbidden_header,
    invalid_operation,
    invalid_params,
    invalid_result,
    invalid_request,
    invalid_event_type,    // invalid_request
    invalid_stream_start,  // invalid_request
    invalid_escape,        // invalid_request
    unknown_event,
    unknown_subscription,
    unknown_stream,
    not_found,
    method_not_allowed,
    stream_already_started,
    response_committed,
    wrong_event_kind,
    nested_exclusive,
    not_in_section,
    already_completed,
    wait_in_progress,
    channel_text_too_large,  // text_too_large
    stream_text_too_large,   // text_too_large
    event_too_large,         // text_too_large
    reason_too_large,
    params_too_large,
    result_too_large,
    channel_limit,
    subscription_limit,
    exclusive_failed,       // the detail is the reason
    section_not_completed,  // exclusive_failed
    section_timed_out,      // exclusive_failed
    no_handler,             // exclusive_failed
    no_memory,
    exclusive_queue_full,
    exclusive_wait_timeout,

    // the events API
    token_missing,
    bad_request,
    client_bad_json,
    events_handler_required,
    invalid_targets,
    events_handler_not_found,
    events_handler_hash_mismatch,
    events_context_too_large,
    invalid_expires_at,
    invalid_subject,
    invalid_subject_pattern,
    invalid_subject_op,
    events_subscription_limit,
    too_many_requests,
    subscription_does_not_exist,
    events_disabled,
    store_failed,
};

struct ErrorInfo {
    int status;                // HTTP
    std::string_view code;     // stable, of the interface
    std::string_view message;  // UTF-8, valid inside a JSON string as it is
};

// Valid for the process's life.
[[nodiscard]] const ErrorInfo& error_info(ErrorCode error) noexcept;

// Longer details are cut.
inline constexpr std::size_t kMaxErrorDetail = 1024;

// Appends the JSON body of a refusal. `detail` is the offending value or whatever else belongs
// behind the table's message: any bytes, escaped and cut here. It is left out where the
// interface fixes the whole message.
void append_error_json(std::string& out, ErrorCode error, std::string_view detail = {});

// The same for what has no row in the table, as an error of the server itself. `code` is plain ASCII.
void append_error_json(std::string& out, std::string_view code, std::string_view message);

// What a wait with status 2 answers where it is not a close's reason (C-13, C-27).
inline constexpr std::string_view kCancelledReason = "订阅已取消";
inline constexpr std::string_view kBacklogReason = "订阅积压超过 1 MiB，已被断开";

}  // namespace durable
