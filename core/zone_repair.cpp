// SPDX-License-Identifier: BSD-2-Clause
// See "its list" in records.h. First every derived link and count is forgotten, then derived anew,
// and only then do the ordinary operations finish what was half done.
#include "core/zone_repair.h"

#include "core/channel.h"
#include "core/channel_log.h"
#include "core/event.h"
#include "core/line.h"
#include "core/object.h"

namespace durable {

namespace {

// `visit` may free the record.
template <class Record, ListLink Record::*Member, class Visit>
void for_each(const IntrusiveList<Record, Member>& list, Visit&& visit) noexcept {
    for (Record* record = list.front(); record != nullptr;) {
        Record* next = list.next(*record);
        visit(*record);
        record = next;
    }
}

template <class Visit>
void for_each_object(const ZoneRoot& root, Visit&& visit) noexcept {
    for (std::uint32_t bucket = 0; bucket < root.objects.bucket_count(); ++bucket) {
        for (ObjectRecord* object = root.objects.bucket(bucket); object != nullptr;) {
            ObjectRecord* next = object->hash_next;
            visit(*object);
            object = next;
        }
    }
}

template <class Visit>
void for_each_slot(const ZoneRoot& root, Visit&& visit) noexcept {
    for (std::uint16_t slot = 0; slot < root.slot_count; ++slot) visit(*root.slots[slot]);
}

SubscriptionRecord& subscription_of(CursorRecord& cursor) noexcept {
    return reinterpret_cast<SubscriptionRecord&>(cursor);  // its first member
}

// ---- forget what is derived ------------------------------------------------------------------

void reset_slot(WorkerSlotRecord& slot) noexcept {
    slot.stations.repair();
    slot.cursors.repair();
    slot.events.repair();
    slot.line_entries.repair();
    slot.mailbox.repair();
    slot.drafts.repair();
    slot.ready.clear();
    slot.granted.clear();
    slot.mailbox_depth = 0;
    for_each(slot.mailbox, [&](CommandRecord&) { ++slot.mailbox_depth; });
    for_each(slot.stations, [](StationRecord& station) {
        station.channel_link = station.ready_link = ListLink();
        station.cursors.clear();
    });
    for_each(slot.events, [](EventRecord& event) {
        event.subscriptions.repair();
        event.queued.clear();
        event.object_link = ListLink();
    });
    for_each(slot.line_entries, [](LineEntryRecord& entry) {
        entry.granted_link = entry.caller_link = ListLink();
        entry.line_link.prev = nullptr;  // the line's own repair sets it for those that stand there
        entry.event = nullptr;
    });
}

void reset_object(ZoneLock& lock, ObjectRecord& object) noexcept {
    object.channels.repair();
    object.events.clear();
    object.line.repair();
    object.channel_count = 0;
    object.references = 0;
    object.line_length = 0;
    for_each(object.channels, [&](ChannelRecord& channel) {
        channel.stations.clear();
        channel.untrimmed_link = ListLink();
        channel.keeping_link = ListLink();
        channel.cursors = 0;
        channel.live = 0;
        repair_log(lock, channel);
    });
}

// ---- derive it anew --------------------------------------------------------------------------

void attach_cursor(CursorRecord& cursor) noexcept {
    cursor.station_link = ListLink();
    cursor.reader_next = nullptr;
    cursor.reader_link = nullptr;
    if (cursor.state == CursorState::reading && cursor.at == nullptr) cursor.channel = nullptr;  // was being closed
    ChannelRecord* channel = cursor.channel;
    if (channel == nullptr || cursor.state != CursorState::reading) cursor.at = nullptr;
    if (channel == nullptr) {
        cursor.station = nullptr;
        return;
    }
    ++channel->cursors;
    if (cursor.at != nullptr) place_reader(cursor, *cursor.at);
    if (cursor.at != nullptr && !channel->is_closed) channel->live += cursor.weight;
    if (cursor.station != nullptr) cursor.station->cursors.push_back(cursor);
}

void attach_subscription(ZoneRoot& root, CursorRecord& cursor) noexcept {
    attach_cursor(cursor);
    if (cursor.channel == nullptr) cursor.state = CursorState::cancelled;
    SubscriptionRecord& subscription = subscription_of(cursor);
    root.subscriptions.insert(subscription, subscription.hash);
}

void attach_event(ZoneRoot& root, EventRecord& event) noexcept {
    ++event.object->references;
    event.object->events.push_back(event);
    if (event.section != nullptr) event.section->event = &event;
    root.events.insert(event, event.hash);
    for_each(event.subscriptions, [&](CursorRecord& cursor) { attach_subscription(root, cursor); });
}

// One without cursors is looked at and then freed by its worker, as any that lost its last.
void attach_station(WorkerSlotRecord& slot, StationRecord& station) noexcept {
    if (station.cursors.empty()) {
        station.channel = nullptr;
    } else {
        station.channel->stations.push_back(station);
    }
    slot.ready.push_back(station);
}

void attach_channels(ZoneRoot& root, ObjectRecord& object) noexcept {
    for_each(object.channels, [&](ChannelRecord& channel) {
        ++object.references;
        if (!channel.is_listed) return;
        ++object.channel_count;
        root.channels.insert(channel, channel.hash);
    });
}

// Whatever is neither granted nor in the line was entering or leaving, so its worker is dead.
void attach_line_entry(ZoneLock& lock, WorkerSlotRecord& slot, LineEntryRecord& entry) noexcept {
    ObjectRecord& object = *entry.object;
    const bool is_in_line = entry.line_link.prev != nullptr;
    if (!is_in_line) entry.line_link = ListLink();
    if (entry.state == LineState::withdrawn) {
        entry.caller = nullptr;
        if (object.running == &entry) object.running = nullptr;
    } else if (object.running == &entry) {
        entry.state = LineState::granted;
    }
    const bool is_granted =
        entry.state == LineState::withdrawn ||
        (entry.state == LineState::granted && (entry.kind == LineKind::held || object.running == &entry));
    if (!is_granted && !(is_in_line && entry.state == LineState::waiting)) {
        if (entry.event != nullptr) entry.event->section = nullptr;
        entry.line_link.unlink();
        entry.slot_link.unlink();
        lock.destroy(&entry);
        return;
    }
    ++object.references;
    if (entry.caller != nullptr) entry.caller->queued.push_back(entry);
    if (!is_granted) {
        ++object.line_length;
        return;
    }
    entry.line_link.unlink();
    if (!entry.is_told) slot.granted.push_back(entry);
}

// ---- finish what was half done ---------------------------------------------------------------

void finish_subscriptions(ZoneLock& lock, EventRecord& event) noexcept {
    for_each(event.subscriptions, [&](CursorRecord& cursor) {
        SubscriptionRecord& subscription = subscription_of(cursor);
        if (subscription.event == nullptr) free_subscription(lock, subscription);
    });
}

void finish_object(ZoneLock& lock, ObjectRecord& object) noexcept {
    ++object.references;
    for_each(object.channels, [&](ChannelRecord& channel) {
        repair_unread_from(channel);
        settle_channel(lock, channel);
    });
    advance_line(lock, object);
    release_object(lock, object);
}

bool owns_something(const WorkerSlotRecord& slot) noexcept {
    return !slot.stations.empty() || !slot.cursors.empty() || !slot.events.empty() || !slot.line_entries.empty() ||
           !slot.mailbox.empty() || !slot.drafts.empty();
}

}  // namespace

void repair_zone(ZoneLock& lock) noexcept {
    ZoneRoot& root = lock.root();
    root.channels.clear();
    root.subscriptions.clear();
    root.events.clear();
    root.objects.recount();
    root.budgets.recount();
    root.untrimmed.clear();
    root.keeping.clear();
    for_each_slot(root, reset_slot);
    for_each_object(root, [&](ObjectRecord& object) { reset_object(lock, object); });

    for_each_slot(root, [&](WorkerSlotRecord& slot) {
        for_each(slot.cursors, attach_cursor);
        for_each(slot.events, [&](EventRecord& event) { attach_event(root, event); });
    });
    for_each_slot(root, [&](WorkerSlotRecord& slot) {
        for_each(slot.stations, [&](StationRecord& station) { attach_station(slot, station); });
        for_each(slot.line_entries, [&](LineEntryRecord& entry) { attach_line_entry(lock, slot, entry); });
    });
    for_each_object(root, [&](ObjectRecord& object) { attach_channels(root, object); });

    // The channels' unread parts come first: whatever frees a subscription below looks at them.
    for_each_object(root, [&](ObjectRecord& object) { finish_object(lock, object); });
    for_each_slot(root, [&](WorkerSlotRecord& slot) {
        for_each(slot.events, [&](EventRecord& event) { finish_subscriptions(lock, event); });
    });
    for (std::uint16_t slot = 0; slot < root.slot_count; ++slot) {
        if (root.slots[slot]->pid == 0 && owns_something(*root.slots[slot])) forget_worker(lock, slot);
    }
    root.must_wake_all = true;
}

}  // namespace durable
