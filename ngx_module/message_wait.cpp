// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/message_wait.h"

#include "core/event.h"
#include "core/json_text.h"
#include "ngx_module/pool.h"

namespace durable {

namespace {

void answer_message(HostCall& call, std::string_view text) {
    std::string json = "{\"status\":0,\"text\":";
    append_json_string(json, text);
    call.answer(NGX_HTTP_OK, json += '}');
}

void answer_over(HostCall& call, std::string_view reason, std::string_view code) {
    std::string json = "{\"status\":2,\"text\":";
    append_json_string(json, reason);
    json.append(",\"code\":\"").append(code).append("\"}");
    call.answer(NGX_HTTP_OK, json);
}

}  // namespace

MessageWait::MessageWait(HostCall& call, std::uint64_t handle, std::uint32_t timeout_ms) noexcept
    : call_(call), handle_(handle), timeout_ms_(timeout_ms) {
    timer_.data = posted_.data = this;
    timer_.log = posted_.log = call.request->connection->log;
    timer_.handler = on_timeout;
    posted_.handler = on_posted;
}

MessageWait::~MessageWait() {
    call_.wait = nullptr;
    if (timer_.timer_set) ngx_del_timer(&timer_);
    if (posted_.posted) {
        ngx_delete_posted_event(&posted_);
    }
    stop_awaiting();
}

void MessageWait::look() {
    if (call_.is_client_gone()) return call_.abandon();
    TakeOutcome outcome = TakeOutcome::cancelled;
    std::string text;
    {
        CallAccess access(call_);
        if (!access) {
            // The event has ended, and its subscriptions with it.
            if (is_awaiting_ && access.is_event_over()) answer_over(call_, kCancelledReason, "cancelled");
            return;
        }
        ZoneLock& lock = access.lock();
        SubscriptionRecord* subscription = find_subscription(lock, *access.event(), handle_);
        if (subscription == nullptr) {
            access.release();
            return call_.refuse(ErrorCode::unknown_subscription);
        }
        CursorRecord& cursor = subscription->cursor;
        if (!is_awaiting_ && cursor.station != nullptr) {
            access.release();
            return call_.refuse(ErrorCode::wait_in_progress);
        }
        outcome = take_message(lock, *subscription, text);
        if (outcome == TakeOutcome::nothing_yet && timeout_ms_ != 0 && !is_timed_out_) {
            const ErrorCode error = is_awaiting_ ? ErrorCode::ok : await(lock, cursor);
            access.release();
            if (error != ErrorCode::ok) call_.refuse(error);
            return;
        }
        if (is_awaiting_) durable::stop_awaiting(lock, cursor);
    }
    forget_station();
    switch (outcome) {
    case TakeOutcome::nothing_yet: return call_.answer(NGX_HTTP_OK, "{\"status\":1,\"text\":\"\"}");
    case TakeOutcome::message: return answer_message(call_, text);
    case TakeOutcome::closed: return answer_over(call_, text, "closed");
    case TakeOutcome::backlog: return answer_over(call_, kBacklogReason, "backlog");
    case TakeOutcome::cancelled: return answer_over(call_, kCancelledReason, "cancelled");
    }
}

ErrorCode MessageWait::await(ZoneLock& lock, CursorRecord& cursor) {
    if (!await_messages(lock, cursor)) return ErrorCode::no_memory;
    is_awaiting_ = true;
    call_.zone.listen(*this, cursor.station, false);
    call_.park();
    // nginx's clock stands still during a round of its loop, and its timers fire in the millisecond
    // that they name: never early (C-20) means one more.
    if (!timer_.timer_set) ngx_add_timer(&timer_, static_cast<ngx_msec_t>(timeout_ms_) + 1);
    return ErrorCode::ok;
}

void MessageWait::forget_station() noexcept {
    is_awaiting_ = false;
    call_.zone.ignore(*this);
}

void MessageWait::stop_awaiting() noexcept {
    if (!is_awaiting_) return;
    forget_station();
    if (!call_.zone.is_claimed()) return;  // the worker has left the zone with all that it had there
    ZoneAccess access(call_.zone);
    const EventRecord* event = find_event(access, *call_.token);
    if (event == nullptr) return;
    if (SubscriptionRecord* subscription = find_subscription(access, *event, handle_)) {
        durable::stop_awaiting(access, subscription->cursor);
    }
}

void MessageWait::on_station_ready() noexcept {
#if (NGX_HTTP_V2)
    // A reset of an HTTP/2 stream is a frame that may lie unread behind this event (C-23).
    if (call_.request->stream != nullptr) {
        ngx_post_event(&posted_, &ngx_posted_events);
        return;
    }
#endif
    wake();
}

void MessageWait::on_posted(ngx_event_t* event) noexcept { static_cast<MessageWait*>(event->data)->wake(); }

void MessageWait::on_timeout(ngx_event_t* event) noexcept {
    MessageWait& wait = *static_cast<MessageWait*>(event->data);
    wait.is_timed_out_ = true;
    wait.wake();
}

void MessageWait::wake() noexcept {
    call_.resume([this] {
        if (call_.is_in_line()) return;  // its turn there comes first
        call_.run();
    });
}

void wait_for_message(HostCall& call, std::uint32_t timeout_ms) {
    const auto handle = read_handle(call.argument);
    // No handle is 0: its record is looked for all the same, so that an event that is over says so.
    auto* wait = create_in_pool<MessageWait>(call.request->pool, call, handle.value_or(0), timeout_ms);
    if (wait == nullptr) return call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    call.wait = wait;
    call.set_work([](HostCall& waiting) { waiting.wait->look(); });
    call.run();
}

}  // namespace durable
