// SPDX-License-Identifier: BSD-2-Clause
// The host calls on channels and subscriptions.
#include "core/channel.h"
#include "core/event.h"
#include "core/text_rules.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/message_wait.h"
#include "ngx_module/object_request.h"
#include "ngx_module/publishing.h"

namespace durable {

namespace {

// The offending name, as far as it can be one.
bool has_channel_name(HostCall& call) {
    const ErrorCode error = check_channel_name(call.argument);
    if (error != ErrorCode::ok) call.refuse(error, call.argument);
    return error == ErrorCode::ok;
}

void refuse_outcome(HostCall& call, ChannelOutcome outcome) {
    const ErrorCode error = error_of(outcome);
    const ZoneLimits& limits = call.zone.zone().limits;
    std::string limit;
    if (error == ErrorCode::subscription_limit) limit = std::to_string(limits.subscriptions);
    if (error == ErrorCode::channel_limit) limit = std::to_string(limits.channels);
    call.refuse(error, limit);
}

void answer_number(HostCall& call, std::string_view name, std::uint64_t number) {
    std::string json = "{\"";
    json.append(name).append("\":").append(std::to_string(number)).append("}");
    call.answer(NGX_HTTP_OK, json);
}

}  // namespace

void subscribe_call(HostCall& call) {
    if (!has_channel_name(call)) return;
    CallAccess access(call);
    if (!access) return;
    const SubscribeResult result = subscribe(access.lock(), *access.event(), call.argument);
    access.release();
    if (result.outcome != ChannelOutcome::ok) return refuse_outcome(call, result.outcome);
    call.answer(NGX_HTTP_CREATED, "{\"subscription\":\"" + handle_text(result.handle) + "\"}");
}

void count_call(HostCall& call) {
    if (!has_channel_name(call)) return;
    CallAccess access(call);
    if (!access) return;
    const std::uint32_t count = count_subscriptions(access.lock(), access.object_key(), call.argument);
    access.release();
    answer_number(call, "subscriptions", count);
}

void publish_call(HostCall& call) {
    if (!has_channel_name(call)) return;
    std::string event, storage;
    std::string_view text;
    if (const ErrorCode error = read_event_type(call.request, event); error != ErrorCode::ok) return call.refuse(error);
    if (!call.read_body(storage, text)) return;
    if (const ErrorCode error = check_published_text(text); error != ErrorCode::ok) return call.refuse(error);
    CallAccess access(call);
    if (!access) return;
    const PublishResult result =
        publish(access.lock(), access.object_key(), call.argument, event, text, HistoryRule(), unix_ms());
    access.release();
    if (result.outcome != ChannelOutcome::ok) return refuse_outcome(call, result.outcome);
    answer_number(call, "delivered", result.delivered);
}

void close_call(HostCall& call) {
    if (!has_channel_name(call)) return;
    std::string storage;
    std::string_view reason;
    if (!call.read_body(storage, reason)) return;
    if (const ErrorCode error = check_reason(reason); error != ErrorCode::ok) return call.refuse(error);
    CallAccess access(call);
    if (!access) return;
    const CloseResult result = close_channel(access.lock(), access.object_key(), call.argument, reason);
    access.release();
    if (result.outcome != ChannelOutcome::ok) return refuse_outcome(call, result.outcome);
    answer_number(call, "closed", result.closed);
}

void wait_call(HostCall& call) {
    std::string text;
    bool is_present;
    ErrorCode error = read_argument(call.request, "timeout", text, is_present);
    if (error != ErrorCode::ok) return call.refuse(ErrorCode::invalid_timeout);
    const TimeoutResult timeout =
        parse_wait_timeout(is_present ? std::optional<std::string_view>(text) : std::nullopt);
    if (timeout.error != ErrorCode::ok) return call.refuse(timeout.error, text);
    wait_for_message(call, timeout.timeout_ms);
}

void cancel_call(HostCall& call) {
    const auto handle = read_handle(call.argument);
    CallAccess access(call);
    if (!access) return;
    SubscriptionRecord* subscription =
        handle ? find_subscription(access.lock(), *access.event(), *handle) : nullptr;
    if (subscription != nullptr) cancel_subscription(access.lock(), *subscription);
    access.release();
    if (subscription == nullptr) return call.refuse(ErrorCode::unknown_subscription);
    call.answer_nothing();
}

}  // namespace durable
