// SPDX-License-Identifier: BSD-2-Clause
#include "core/line.h"

#include <utility>

#include "core/event.h"
#include "core/object.h"

namespace durable {

namespace {

// How many held ones go at once; each that leaves lets more go.
constexpr int kGrantAtOnce = 64;

// Takes a waiting entry out of the line and tells its worker.
void take_out(ZoneLock& lock, LineEntryRecord& entry, LineState state) noexcept {
    keep_store_order();
    entry.state = state;
    keep_store_order();
    entry.line_link.unlink();
    --entry.object->line_length;
    lock.root().slots[entry.owner.slot]->granted.push_back(entry);
    lock.wake(entry.owner.slot);
}

void grant(ZoneLock& lock, LineEntryRecord& entry) noexcept {
    if (entry.kind == LineKind::section) entry.object->running = &entry;
    take_out(lock, entry, LineState::granted);
}

void set_caller(LineEntryRecord& entry, EventRecord& event, std::uint64_t now_ms) noexcept {
    if (event.queued.empty()) event.queued_since_ms = now_ms;
    entry.caller = &event;
    event.queued.push_back(entry);
}

}  // namespace

void advance_line(ZoneLock& lock, ObjectRecord& object) noexcept {
    for (int step = 0; step < kGrantAtOnce && object.running == nullptr; ++step) {
        LineEntryRecord* entry = object.line.front();
        if (entry == nullptr) return;
        grant(lock, *entry);
    }
}

bool must_wait(const ObjectRecord& object, const EventRecord* event) noexcept {
    if (object.running == nullptr) return !object.line.empty();
    return event == nullptr || event->section != object.running;
}

bool runs_section_of(const ZoneLock& lock, std::string_view object_key, const EventToken& token) noexcept {
    const ObjectRecord* object = find_object(lock, object_key);
    return object != nullptr && object->running != nullptr && object->running->token == token;
}

LineResult enter_line(ZoneLock& lock, std::string_view object_key, LineKind kind, std::uint64_t ticket,
                      std::uint32_t queue, const LineCaller* caller) noexcept {
    EventRecord* event = caller == nullptr ? nullptr : find_event(lock, caller->token);
    if (caller != nullptr && event == nullptr) return {LineOutcome::event_over, nullptr};
    ObjectRecord* object = find_object(lock, object_key);
    const bool is_free = object == nullptr || (object->running == nullptr && object->line.empty());
    if (kind == LineKind::held && is_free) return {LineOutcome::passed, nullptr};
    if (!is_free && object->line_length >= queue) return {LineOutcome::full, nullptr};
    object = refer_to_object(lock, object_key);
    if (object == nullptr) return {LineOutcome::no_memory, nullptr};
    auto* entry = lock.create<LineEntryRecord>();
    if (entry == nullptr) {
        release_object(lock, *object);
        return {LineOutcome::no_memory, nullptr};
    }
    entry->object = object;
    entry->ticket = ticket;
    entry->owner = lock.zone().self;
    entry->kind = kind;
    lock.own_slot().line_entries.push_back(*entry);
    if (is_free) {
        entry->state = LineState::granted;
        entry->is_told = true;
        keep_store_order();
        object->running = entry;
        return {LineOutcome::granted, entry};
    }
    if (event != nullptr) set_caller(*entry, *event, caller->now_ms);
    object->line.push_back(*entry);
    ++object->line_length;
    return {LineOutcome::waiting, entry};
}

bool end_caller_wait(ZoneLock&, LineEntryRecord& entry, std::uint64_t now_ms) noexcept {
    if (entry.state == LineState::withdrawn) return false;
    if (entry.caller == nullptr) return true;
    EventRecord& event = *entry.caller;
    entry.caller_link.unlink();
    keep_store_order();
    entry.caller = nullptr;
    if (event.queued.empty()) event.queued_ms += now_ms - event.queued_since_ms;
    return true;
}

std::uint64_t take_queued_time(EventRecord& event, std::uint64_t now_ms) noexcept {
    if (!event.queued.empty()) {
        event.queued_ms += now_ms - event.queued_since_ms;
        event.queued_since_ms = now_ms;
    }
    return std::exchange(event.queued_ms, 0);
}

// One that has been granted and does not know it yet is withdrawn too: it has not run.
void withdraw_sections(ZoneLock& lock, EventRecord& event) noexcept {
    while (LineEntryRecord* entry = event.queued.front()) {
        ObjectRecord& object = *entry->object;
        if (entry->state == LineState::waiting) {
            take_out(lock, *entry, LineState::withdrawn);
        } else {
            keep_store_order();
            entry->state = LineState::withdrawn;
            keep_store_order();
            if (object.running == entry) object.running = nullptr;
        }
        entry->caller_link.unlink();
        keep_store_order();
        entry->caller = nullptr;
        advance_line(lock, object);
    }
}

void leave_line(ZoneLock& lock, LineEntryRecord* entry) noexcept {
    ObjectRecord& object = *entry->object;
    if (entry->line_link.is_linked()) {
        entry->line_link.unlink();
        --object.line_length;
    }
    if (object.running == entry) object.running = nullptr;
    if (entry->event != nullptr) entry->event->section = nullptr;
    entry->caller_link.unlink();
    entry->granted_link.unlink();
    entry->slot_link.unlink();
    lock.destroy(entry);
    advance_line(lock, object);
    release_object(lock, object);
}

LineEntryRecord* take_granted(ZoneLock& lock) noexcept {
    LineEntryRecord* entry = lock.own_slot().granted.pop_front();
    if (entry != nullptr) entry->is_told = true;
    return entry;
}

}  // namespace durable
