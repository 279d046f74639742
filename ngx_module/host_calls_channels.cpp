// SPDX-License-Identifier: BSD-2-Clause
// The host calls on channels and subscriptions.
#include "core/channel.h"
#include "core/event.h"
#include "core/json_text.h"
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
    call.refuse(error, limit_detail(error, call.zone.zone().limits));
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
    const HistoryRule history = history_rule(*location_settings(call.request), call.zone.worker());
    CallAccess access(call);
    if (!access) return;
    const PublishResult result =
        publish(access.lock(), access.object_key(), call.argument, event, text, history, unix_ms());
    access.release();
    if (result.outcome != ChannelOutcome::ok) return refuse_outcome(call, result.outcome);
    call.answer(NGX_HTTP_OK, publish_answer(result));
}

namespace {

// The page that a history call asks for: `after`, an id or nothing, and `limit`.
struct PageRequest {
    std::optional<std::string> after;
    std::size_t limit = 50;
};

bool read_page_request(HostCall& call, PageRequest& page) {
    std::string text;
    bool is_present;
    if (const ErrorCode error = read_argument(call.request, "after", text, is_present); error != ErrorCode::ok) {
        call.refuse(error);
        return false;
    }
    if (is_present && !text.empty()) page.after = text;
    if (const ErrorCode error = read_argument(call.request, "limit", text, is_present); error != ErrorCode::ok) {
        call.refuse(error);
        return false;
    }
    if (!is_present) return true;
    ngx_str_t digits = to_ngx(text);
    const ngx_int_t limit = ngx_atoi(digits.data, digits.len);
    if (limit < 1) {
        call.refuse(ErrorCode::invalid_request, "the limit must be 1 to 200");
        return false;
    }
    page.limit = static_cast<std::size_t>(std::min<ngx_int_t>(limit, 200));
    return true;
}

void append_kept(std::string& json, const KeptMessage& message) {
    json += json.back() == '[' ? "{\"id\":\"" : ",{\"id\":\"";
    append_message_id(json, message.id);
    json += "\",\"event\":";
    if (message.event.empty()) {
        json += "null";
    } else {
        append_json_string(json, message.event);
    }
    json += ",\"text\":";
    append_json_string(json, message.text);
    json += '}';
}

}  // namespace

// H-10. Long pages are copied in several holds of the lock.
void history_call(HostCall& call) {
    PageRequest request;
    if (!has_channel_name(call) || !read_page_request(call, request)) return;
    CallAccess access(call);
    if (!access) return;
    const std::string key(access.object_key());
    const Resumption resumption =
        resume_after(access.lock(), key, {call.argument}, request.after.value_or(std::string()), unix_ms());
    access.release();
    bool is_gap = request.after.has_value() && resumption.is_gap;
    std::uint64_t after = resumption.start.kind == StartAt::after ? resumption.start.number : 0;
    std::string json = "{\"items\":[";
    MessageId head;
    for (bool is_first = true, is_complete = false; !is_complete; is_first = false) {
        KeptPage page;
        {
            ZoneAccess zone(call.zone);
            page = read_kept(zone, key, call.argument, after, request.limit);
        }
        if (is_first) head = page.head;
        is_gap |= !is_first && page.has_hole;
        for (const KeptMessage& message : page.items) append_kept(json, message);
        request.limit -= page.items.size();
        if (!page.items.empty()) after = page.items.back().id.number;
        is_complete = page.is_complete || request.limit == 0;
    }
    json += "],\"head\":";
    if (head.number == 0) {
        json += "null";
    } else {
        json += '"';
        append_message_id(json, head);
        json += '"';
    }
    json += is_gap ? ",\"gap\":true}" : ",\"gap\":false}";
    call.answer(NGX_HTTP_OK, json);
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
    // A busy round's cached time lies behind, and the wait would end early by as much (C-20).
    ngx_time_update();
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
