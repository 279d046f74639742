// SPDX-License-Identifier: BSD-2-Clause
#include "core/event.h"

#include "core/line.h"
#include "core/object.h"

namespace durable {

namespace {

std::uint32_t token_hash(const EventToken& token) noexcept {
    std::uint32_t hash;
    std::memcpy(&hash, token.random, sizeof hash);
    return hash;
}

// Spreads a counter over all 64 bits; one to one, so no two handles are the same.
std::uint64_t spread(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

SubscriptionRecord& subscription_of(CursorRecord& cursor) noexcept {
    return reinterpret_cast<SubscriptionRecord&>(cursor);  // its first member
}

}  // namespace

EventRecord* find_event(const ZoneLock& lock, const EventToken& token) noexcept {
    return lock.root().events.find(token_hash(token), [&](const EventRecord& event) { return event.token == token; });
}

EventRecord* bind_event(ZoneLock& lock, const EventToken& token, EventKind kind, std::string_view object_key,
                        LineEntryRecord* section, const SectionRules& rules) noexcept {
    ObjectRecord* object = refer_to_object(lock, object_key);
    if (object == nullptr) return nullptr;
    auto* event = lock.create<EventRecord>();
    if (event == nullptr || !event->section_handler.assign(lock, rules.handler)) {
        if (event != nullptr) lock.destroy(event);
        release_object(lock, *object);
        return nullptr;
    }
    event->section_timeout_ms = rules.timeout_ms;
    event->line_queue = rules.queue;
    event->token = token;
    event->kind = kind;
    event->object = object;
    event->section = section;
    lock.own_slot().events.push_back(*event);
    if (section != nullptr) section->event = event;
    object->events.push_back(*event);
    lock.root().events.insert(*event, token_hash(token));
    return event;
}

void end_event(ZoneLock& lock, EventRecord& event) noexcept {
    while (CursorRecord* cursor = event.subscriptions.front()) free_subscription(lock, subscription_of(*cursor));
    withdraw_sections(lock, event);
    if (event.section != nullptr) event.section->event = nullptr;
    lock.root().events.remove(event);
    event.object_link.unlink();
    event.slot_link.unlink();
    ObjectRecord& object = *event.object;
    event.section_handler.release(lock);
    lock.destroy(&event);
    release_object(lock, object);
}

SubscribeResult subscribe(ZoneLock& lock, EventRecord& event, std::string_view channel_name) noexcept {
    auto* subscription = lock.create<SubscriptionRecord>();
    if (subscription == nullptr) return {ChannelOutcome::no_memory, 0};
    const ChannelOutcome outcome = open_cursor(lock, subscription->cursor, event.object->key(), channel_name);
    if (outcome != ChannelOutcome::ok) {
        lock.destroy(subscription);
        return {outcome, 0};
    }
    subscription->handle = spread(++lock.root().last_handle);
    event.subscriptions.push_back(subscription->cursor);
    lock.root().subscriptions.insert(*subscription, static_cast<std::uint32_t>(subscription->handle));
    subscription->event = &event;
    return {ChannelOutcome::ok, subscription->handle};
}

SubscriptionRecord* find_subscription(const ZoneLock& lock, const EventRecord& event, std::uint64_t handle) noexcept {
    return lock.root().subscriptions.find(static_cast<std::uint32_t>(handle),
                                          [&](const SubscriptionRecord& subscription) {
                                              return subscription.handle == handle && subscription.event == &event;
                                          });
}

void cancel_subscription(ZoneLock& lock, SubscriptionRecord& subscription) noexcept {
    CursorRecord& cursor = subscription.cursor;
    if (cursor.state != CursorState::reading || is_drained(cursor)) return;
    notify_owner(lock, cursor);
    close_cursor(lock, cursor);
    cursor.state = CursorState::cancelled;
}

void free_subscription(ZoneLock& lock, SubscriptionRecord& subscription) noexcept {
    subscription.event = nullptr;
    keep_store_order();
    notify_owner(lock, subscription.cursor);
    close_cursor(lock, subscription.cursor);
    lock.root().subscriptions.remove(subscription);
    subscription.cursor.owner_link.unlink();
    lock.destroy(&subscription);
}

TakeOutcome take_message(ZoneLock& lock, SubscriptionRecord& subscription, std::string& text) {
    CursorRecord& cursor = subscription.cursor;
    if (cursor.state == CursorState::cancelled) return TakeOutcome::cancelled;
    if (cursor.state == CursorState::dropped) return TakeOutcome::backlog;
    text.clear();
    if (const MessageRecord* message = next_message(cursor)) {
        TextChain{message->text, message->size + message->event_size}.append_to(text, message->event_size);
        move_on(lock, cursor);
        return TakeOutcome::message;
    }
    if (!cursor.channel->is_closed) return TakeOutcome::nothing_yet;
    cursor.channel->close_reason.append_to(text);
    return TakeOutcome::closed;
}

}  // namespace durable
