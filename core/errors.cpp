// SPDX-License-Identifier: BSD-2-Clause
#include "core/errors.h"

#include "core/json_text.h"

namespace durable {

namespace {

// What stands between the table's message and a detail.
enum class Joint : std::uint8_t { no_detail, colon, wide_colon, space, nothing };

struct Row {
    ErrorCode error;
    ErrorInfo info;
    Joint joint;
};

constexpr Row kRows[] = {
    {ErrorCode::ok, {200, "ok", ""}, Joint::no_detail},
    {ErrorCode::invalid_object, {400, "invalid_object", "the object's key must be 1 to 512 bytes"}, Joint::colon},
    {ErrorCode::invalid_channel,
     {400, "invalid_channel", "持久频道名须为 1 至 64 字节，只可用 A-Z a-z 0-9 . _ : -"},
     Joint::wide_colon},
    {ErrorCode::text_starts_with_ff, {400, "invalid_text", "持久频道文字不得以字节 0xFF 起首"}, Joint::no_detail},
    {ErrorCode::text_not_utf8, {400, "invalid_text", "the text is not valid UTF-8"}, Joint::colon},
    {ErrorCode::invalid_timeout, {400, "invalid_timeout", "持久频道等待超时须在 0 至 3600000 毫秒"}, Joint::no_detail},
    {ErrorCode::invalid_status, {400, "invalid_status", "事件流响应状态不在 200 至 299"}, Joint::no_detail},
    {ErrorCode::invalid_header_name, {400, "invalid_header", "事件流标头名无效"}, Joint::wide_colon},
    {ErrorCode::invalid_header_value, {400, "invalid_header", "事件流标头值无效"}, Joint::wide_colon},
    {ErrorCode::duplicate_header, {400, "invalid_header", "事件流标头重复"}, Joint::wide_colon},
    {ErrorCode::too_many_headers, {400, "invalid_header", "a stream takes at most 32 extra headers"}, Joint::colon},
    {ErrorCode::forbidden_header, {400, "forbidden_header", "事件流标头不允许应用附加"}, Joint::wide_colon},
    {ErrorCode::invalid_operation,
     {400, "invalid_operation", "持久独占失败：独占区操作名须为 1 至 128 字节"},
     Joint::no_detail},
    {ErrorCode::invalid_params, {400, "invalid_params", "持久独占失败：独占区参数不是有效 JSON"}, Joint::no_detail},
    {ErrorCode::invalid_result, {400, "invalid_result", "持久独占结果无效：独占区结果不是有效 JSON"}, Joint::no_detail},
    {ErrorCode::invalid_request, {400, "invalid_request", "the request is not valid"}, Joint::colon},
    {ErrorCode::invalid_event_type,
     {400, "invalid_request",
      "the event type must be 1 to 256 bytes of UTF-8 without control characters and must not begin with "
      "durable-"},
     Joint::colon},
    {ErrorCode::invalid_stream_start,
     {400, "invalid_request",
      "the body must be empty or a JSON object with status, a number, and headers, an array of [name, value]"},
     Joint::colon},
    {ErrorCode::invalid_escape,
     {400, "invalid_request", "the path or an argument has a broken percent-escape"},
     Joint::colon},
    {ErrorCode::unknown_event, {401, "unknown_event", "there is no such running event"}, Joint::colon},
    {ErrorCode::unknown_subscription,
     {403, "unknown_subscription", "持久频道订阅柄无效：不是本次事件创建的订阅"},
     Joint::wide_colon},
    {ErrorCode::unknown_stream, {403, "unknown_stream", "事件流柄无效"}, Joint::wide_colon},
    {ErrorCode::not_found, {404, "not_found", "there is no such call"}, Joint::colon},
    {ErrorCode::method_not_allowed, {405, "method_not_allowed", "this call does not have that method"}, Joint::colon},
    {ErrorCode::stream_already_started,
     {409, "stream_already_started", "本次事件已经开始过事件流回应"},
     Joint::no_detail},
    {ErrorCode::response_committed,
     {409, "response_committed", "the response of this event can no longer become a stream"},
     Joint::colon},
    {ErrorCode::wrong_event_kind, {409, "wrong_event_kind", "事件流只能回应 HTTP 事件"}, Joint::wide_colon},
    {ErrorCode::nested_exclusive, {409, "nested_exclusive", "独占区内不可再启动独占区"}, Joint::no_detail},
    {ErrorCode::not_in_section,
     {409, "not_in_section", "this event is not that of an exclusive section"},
     Joint::colon},
    {ErrorCode::already_completed,
     {409, "already_completed", "持久独占结果无效：独占区结果只能设置一次"},
     Joint::no_detail},
    {ErrorCode::wait_in_progress,
     {409, "wait_in_progress", "another call is already waiting on this subscription"},
     Joint::colon},
    {ErrorCode::channel_text_too_large, {413, "text_too_large", "持久频道文字超过 65536 字节"}, Joint::no_detail},
    {ErrorCode::stream_text_too_large, {413, "text_too_large", "事件流单次写入超过 64 KiB"}, Joint::no_detail},
    {ErrorCode::event_too_large, {413, "text_too_large", "the event exceeds 65536 bytes"}, Joint::colon},
    {ErrorCode::reason_too_large, {413, "reason_too_large", "the reason exceeds 1024 bytes"}, Joint::colon},
    {ErrorCode::params_too_large, {413, "params_too_large", "持久独占失败：独占区参数超过 8 MiB"}, Joint::no_detail},
    {ErrorCode::result_too_large,
     {413, "result_too_large", "持久独占结果无效：独占区结果超过 8 MiB"},
     Joint::no_detail},
    {ErrorCode::channel_limit,
     {429, "channel_limit", "the object already has as many channels as it may"},
     Joint::colon},
    {ErrorCode::subscription_limit, {429, "subscription_limit", "持久频道订阅数已达上限"}, Joint::space},
    {ErrorCode::exclusive_failed, {500, "exclusive_failed", "持久独占失败："}, Joint::nothing},
    {ErrorCode::section_not_completed, {500, "exclusive_failed", "持久独占失败：豫言独占区未供结果"}, Joint::no_detail},
    {ErrorCode::section_timed_out, {500, "exclusive_failed", "持久独占失败：豫言执行超过时限"}, Joint::no_detail},
    {ErrorCode::no_handler,
     {500, "exclusive_failed", "持久独占失败：no durable_exclusive_handler is configured"},
     Joint::no_detail},
    {ErrorCode::no_memory, {503, "no_memory", "the zone is full, nothing was changed"}, Joint::colon},
    {ErrorCode::exclusive_queue_full,
     {503, "exclusive_queue_full", "the object's line is as long as it may be"},
     Joint::colon},
    {ErrorCode::exclusive_wait_timeout,
     {503, "exclusive_wait_timeout", "the wait in the object's line took too long"},
     Joint::colon},

    {ErrorCode::token_missing, {401, "token_missing", "the caller's account is not known"}, Joint::no_detail},
    {ErrorCode::bad_request, {400, "bad_request", "the request is not valid"}, Joint::colon},
    {ErrorCode::client_bad_json, {400, "client_bad_json", "the body is not valid JSON"}, Joint::colon},
    {ErrorCode::events_handler_required,
     {400, "events_handler_required", "single delivery needs a handlerName"},
     Joint::colon},
    {ErrorCode::invalid_targets,
     {400, "invalid_targets",
      "targets must be a non-empty array of socket, worker (with a handlerName) and push (not with single "
      "delivery)"},
     Joint::colon},
    {ErrorCode::events_handler_not_found,
     {404, "events_handler_not_found", "no durable_handler has this name"},
     Joint::colon},
    {ErrorCode::events_handler_hash_mismatch,
     {409, "events_handler_hash_mismatch", "handlerHash is not that of the configured handler"},
     Joint::colon},
    {ErrorCode::events_context_too_large,
     {413, "events_context_too_large", "the context exceeds 4096 bytes as compact JSON"},
     Joint::colon},
    {ErrorCode::invalid_expires_at,
     {400, "invalid_expires_at", "expiresAt must be a time in the future, unix seconds or ISO 8601"},
     Joint::colon},
    {ErrorCode::invalid_subject,
     {400, "invalid_subject",
      "the subject must be topic:NAME or fs:PATH[:OP] with an absolute normalised path, at most 4096 "
      "characters, none of them a control character"},
     Joint::colon},
    {ErrorCode::invalid_subject_pattern,
     {400, "invalid_subject_pattern",
      "a topic may end in one *; a glob is at most 256 characters and 16 segments, with one ** and one * in "
      "any other segment"},
     Joint::colon},
    {ErrorCode::invalid_subject_op,
     {400, "invalid_subject_op", "the operation must be add, write, move, remove or meta"},
     Joint::colon},
    {ErrorCode::events_subscription_limit,
     {429, "events_subscription_limit", "the caller already has as many subscriptions as it may"},
     Joint::colon},
    {ErrorCode::too_many_requests, {429, "too_many_requests", "too many calls within 60 seconds"}, Joint::colon},
    {ErrorCode::subscription_does_not_exist,
     {404, "subscription_does_not_exist", "the caller has no such subscription"},
     Joint::colon},
    {ErrorCode::events_disabled,
     {503, "events_disabled", "the events API needs a durable_store, and none is configured"},
     Joint::no_detail},
    {ErrorCode::store_failed, {503, "store_failed", "the store could not be read or written"}, Joint::colon},
};

constexpr bool rows_stand_at_their_code() {
    std::size_t index = 0;
    for (const Row& row : kRows) {
        if (static_cast<std::size_t>(row.error) != index++) return false;
    }
    return index == static_cast<std::size_t>(ErrorCode::store_failed) + 1;
}
static_assert(rows_stand_at_their_code());

std::string_view text_of(Joint joint) noexcept {
    switch (joint) {
        case Joint::colon: return ": ";
        case Joint::wide_colon: return "：";
        case Joint::space: return " ";
        case Joint::no_detail:
        case Joint::nothing: break;
    }
    return {};
}

}  // namespace

const ErrorInfo& error_info(ErrorCode error) noexcept { return kRows[static_cast<std::size_t>(error)].info; }

void append_error_json(std::string& out, ErrorCode error, std::string_view detail) {
    const Row& row = kRows[static_cast<std::size_t>(error)];
    out.append(R"({"code":")").append(row.info.code).append(R"(","message":")").append(row.info.message);
    if (row.joint != Joint::no_detail && !detail.empty()) {
        out.append(text_of(row.joint));
        append_json_untrusted(out, detail, kMaxErrorDetail);
    }
    out.append(R"("})");
}

void append_error_json(std::string& out, std::string_view code, std::string_view message) {
    out.append(R"({"code":")").append(code).append(R"(","message":")");
    append_json_untrusted(out, message, kMaxErrorDetail);
    out.append(R"("})");
}

}  // namespace durable
