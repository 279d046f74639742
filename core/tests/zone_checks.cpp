// SPDX-License-Identifier: BSD-2-Clause
#include "core/tests/zone_checks.h"

#include <cppunit/extensions/HelperMacros.h>

#include <map>
#include <set>
#include <vector>

namespace durable {

namespace {

// Collects everything by each record's own list, then compares all else with it.
class Inspection {
public:
    Inspection(const ZoneRoot& root, const IsLive& is_live) : root_(root), is_live_(is_live) {}

    std::string run() {
        live(&root_, "root");
        collect_objects();
        for (std::uint16_t slot = 0; slot < root_.slot_count; ++slot) collect_slot(slot);
        if (!fault_.empty()) return fault_;
        for (const ObjectRecord* object : objects_) check_object(*object);
        for (const ChannelRecord* channel : channels_) check_channel(*channel);
        for (const CursorRecord* cursor : cursors_) check_cursor(*cursor);
        for (const StationRecord* station : stations_) check_station(*station);
        for (const EventRecord* event : events_) check_event(*event);
        for (const LineEntryRecord* entry : entries_) check_entry(*entry);
        for (std::uint16_t slot = 0; slot < root_.slot_count; ++slot) check_slot(*root_.slots[slot]);
        check_indexes();
        return fault_;
    }

    std::size_t reachable() const noexcept { return reachable_.size(); }

private:
    void expect(bool holds, const char* rule) {
        if (!holds && fault_.empty()) fault_ = rule;
    }

    void live(const void* block, const char* what) {
        reachable_.insert(block);
        if (fault_.empty() && !is_live_(block)) fault_ = std::string("freed: ") + what;
    }

    // The records of a list, its links checked in both directions.
    template <class Record, ListLink Record::*Member>
    std::vector<Record*> records(const IntrusiveList<Record, Member>& list, const char* what) {
        std::vector<Record*> out;
        // The anchor is the list's only member.
        const auto* anchor = reinterpret_cast<const ListLink*>(&list);
        const ListLink* before = anchor;
        for (Record* record = list.front(); record != nullptr && fault_.empty(); record = list.next(*record)) {
            live(record, what);
            if (!fault_.empty()) break;
            const ListLink& link = record->*Member;
            if (link.prev != before) fault_ = std::string("backward link: ") + what;
            if (link.next == nullptr) fault_ = std::string("chain ends: ") + what;
            before = &link;
            out.push_back(record);
        }
        if (anchor->next != nullptr && anchor->prev != before && fault_.empty()) {
            fault_ = std::string("anchor's backward link: ") + what;
        }
        return out;
    }

    template <class Record>
    std::set<const Record*> indexed(const HashIndex<Record>& index, const char* what) {
        std::set<const Record*> out;
        for (std::uint32_t bucket = 0; bucket < index.bucket_count(); ++bucket) {
            for (Record* record = index.bucket(bucket); record != nullptr && fault_.empty();
                 record = record->hash_next) {
                live(record, what);
                if (!fault_.empty()) break;
                if ((record->hash & (index.bucket_count() - 1)) != bucket) fault_ = std::string("bucket: ") + what;
                if (!out.insert(record).second) fault_ = std::string("twice in the index: ") + what;
            }
        }
        if (out.size() != index.count() && fault_.empty()) fault_ = std::string("index count: ") + what;
        return out;
    }

    void check_text(const TextBlock* block, std::uint32_t size) {
        std::uint32_t room = 0;
        for (; block != nullptr && fault_.empty(); block = block->next) {
            live(block, "text block");
            room += TextChain::kBlockBytes;
        }
        expect(size <= room && room < size + TextChain::kBlockBytes, "text size");
    }

    void collect_objects() {
        for (const ObjectRecord* object : indexed(root_.objects, "object")) {
            objects_.insert(object);
            for (ChannelRecord* channel : records(object->channels, "channel")) {
                channels_.insert(channel);
                expect(channel->object == object, "channel's object");
            }
        }
    }

    void collect_slot(std::uint16_t index) {
        const WorkerSlotRecord& slot = *root_.slots[index];
        live(&slot, "slot");
        for (StationRecord* station : records(slot.stations, "station")) {
            stations_.insert(station);
            expect(station->slot == index, "station's slot");
        }
        for (CursorRecord* cursor : records(slot.cursors, "cursor")) cursors_.insert(cursor);
        for (EventRecord* event : records(slot.events, "event")) {
            events_.insert(event);
            for (CursorRecord* cursor : records(event->subscriptions, "subscription")) {
                cursors_.insert(cursor);
                const auto* subscription = reinterpret_cast<const SubscriptionRecord*>(cursor);
                subscriptions_.insert(subscription);
                expect(subscription->event == event, "subscription's event");
                expect(subscription->handle != 0, "subscription's handle");
            }
        }
        for (LineEntryRecord* entry : records(slot.line_entries, "line entry")) {
            entries_.insert(entry);
            expect(entry->owner.slot == index, "line entry's slot");
        }
        for (CommandRecord* command : records(slot.mailbox, "command")) {
            check_text(command->text.first, command->text.size);
            ++commands_[&slot];
        }
        (void)records(slot.drafts, "draft");
    }

    void check_object(const ObjectRecord& object) {
        std::uint32_t listed = 0;
        std::uint32_t references = 0;
        for (const ChannelRecord* channel : channels_) {
            if (channel->object != &object) continue;
            ++references;
            if (channel->is_listed) ++listed;
        }
        expect(object.channel_count == listed, "channel_count");
        const auto events = records(object.events, "object's event");
        for (const EventRecord* event : events) expect(events_.count(event) == 1, "object's event in no slot");
        for (const EventRecord* event : events_) references += event->object == &object ? 1 : 0;
        const auto line = records(object.line, "line");
        for (const LineEntryRecord* entry : line) {
            expect(entries_.count(entry) == 1, "line entry in no slot");
            expect(entry->object == &object, "line entry's object");
            expect(entry->state == LineState::waiting, "a granted entry still stands in the line");
        }
        std::uint32_t of_object = 0;
        bool is_held_granted = false;
        for (const LineEntryRecord* entry : entries_) {
            if (entry->object != &object) continue;
            ++of_object;
            if (entry->state == LineState::granted && entry->kind == LineKind::held) is_held_granted = true;
        }
        references += of_object;
        expect(object.line_length == line.size(), "line_length");
        expect(object.references == references, "references");
        expect(object.references != 0, "an object that nothing refers to");
        if (object.running != nullptr) {
            expect(entries_.count(object.running) == 1, "running section in no slot");
        } else {
            expect(line.empty() || is_held_granted, "the line is stuck");
        }
    }

    void check_channel(const ChannelRecord& channel) {
        std::map<const MessageRecord*, int> order;
        const MessageRecord* before = nullptr;
        std::uint32_t kept = 0;
        std::uint64_t last_number = 0;
        for (const MessageRecord* m = channel.first; m != nullptr && fault_.empty(); m = m->next) {
            live(m, "message");
            if (!fault_.empty()) return;
            order[m] = static_cast<int>(order.size());
            expect(m->prev == before, "message's backward link");
            if (m != channel.tail) {
                check_text(m->text, m->size + m->event_size);
                expect(m->number > last_number, "message numbers rise");
                expect(m->next != nullptr && m->next->bytes_before >= m->bytes_before + m->size, "bytes_before");
                last_number = m->number;
                kept += m->is_kept ? 1 : 0;
            }
            check_readers(channel, *m);
            before = m;
        }
        expect(before == channel.tail, "the log ends at its tail");
        if (!fault_.empty()) return;
        expect(channel.tail->number == 0 && channel.tail->text == nullptr && !channel.tail->is_kept, "tail is empty");
        expect(channel.tail->bytes_before == channel.bytes_appended, "bytes_appended");
        expect(last_number <= channel.object->last_number, "last_number");
        expect(channel.kept == kept, "kept");
        expect(order.count(channel.unread_from) == 1, "unread_from is in the log");
        expect(order.count(channel.kept_from) == 1, "kept_from is in the log");
        if (!fault_.empty()) return;
        for (const auto& [message, place] : order) {
            if (place < order[channel.unread_from]) {
                expect(message->readers == nullptr, "a reader before unread_from");
                expect(message->is_kept, "before unread_from nothing but kept messages");
            }
            if (place < order[channel.kept_from]) expect(!message->is_kept, "a kept message before kept_from");
        }
        check_counts(channel);
    }

    void check_readers(const ChannelRecord& channel, const MessageRecord& message) {
        CursorRecord* const* link = &message.readers;
        for (const CursorRecord* cursor = message.readers; cursor != nullptr && fault_.empty();
             cursor = cursor->reader_next) {
            expect(cursors_.count(cursor) == 1, "a reader that nobody owns");
            if (!fault_.empty()) return;
            expect(cursor->at == &message, "reader's place");
            expect(cursor->channel == &channel, "reader's channel");
            expect(cursor->reader_link == link, "reader's backward link");
            placed_.insert(cursor);
            link = &cursor->reader_next;
        }
    }

    void check_counts(const ChannelRecord& channel) {
        std::uint32_t live = 0;
        std::uint32_t cursors = 0;
        for (const CursorRecord* cursor : cursors_) {
            if (cursor->channel != &channel) continue;
            ++cursors;
            if (cursor->state == CursorState::reading && !channel.is_closed) live += cursor->weight;
        }
        expect(channel.live == live, "live");
        expect(channel.cursors == cursors, "cursors");
        const bool is_untrimmed = channel.untrimmed_link.is_linked();
        if (!channel.is_listed) {
            expect(cursors != 0 || is_untrimmed, "an ended channel that nothing needs");
        } else {
            expect(!channel.is_closed, "a closed channel is not listed");
            expect(live != 0 || channel.kept != 0, "a channel without subscription or history");
        }
        const bool is_trimmed = channel.unread_from == channel.tail || channel.unread_from->readers != nullptr;
        expect(is_trimmed || is_untrimmed, "messages that nobody will read");
        if (!channel.is_closed) expect(channel.close_reason.first == nullptr, "a reason without a close");
        check_text(channel.close_reason.first, channel.close_reason.size);
        for (const StationRecord* station : records(channel.stations, "channel's station")) {
            expect(stations_.count(station) == 1, "channel's station in no slot");
            expect(station->channel == &channel, "station's channel");
        }
    }

    void check_cursor(const CursorRecord& cursor) {
        if (cursor.channel != nullptr) expect(channels_.count(cursor.channel) == 1, "a cursor's channel is gone");
        expect((cursor.at != nullptr) == (placed_.count(&cursor) == 1), "a cursor's place is not in a log");
        const bool is_reading = cursor.state == CursorState::reading && cursor.channel != nullptr;
        expect((cursor.at != nullptr) == is_reading, "a cursor has a place exactly while it reads");
        if (cursor.station != nullptr) expect(stations_.count(cursor.station) == 1, "a cursor's station is gone");
        expect(cursor.station_link.is_linked() == (cursor.station != nullptr), "station_link");
    }

    void check_station(const StationRecord& station) {
        const auto cursors = records(station.cursors, "station's cursor");
        for (const CursorRecord* cursor : cursors) {
            expect(cursors_.count(cursor) == 1, "station's cursor that nobody owns");
            if (!fault_.empty()) return;
            expect(cursor->station == &station, "cursor's station");
            expect(cursor->channel == station.channel, "a cursor awaits another channel");
        }
        expect(!cursors.empty() || station.ready_link.is_linked(), "a station that nothing needs");
        expect(station.channel_link.is_linked() == !cursors.empty(), "channel_link");
        if (!cursors.empty()) expect(channels_.count(station.channel) == 1, "a station's channel is gone");
    }

    void check_event(const EventRecord& event) {
        expect(objects_.count(event.object) == 1, "an event's object is gone");
        expect(event.object_link.is_linked(), "an event is not in its object");
        check_text(event.section_handler.first, event.section_handler.size);
        if (event.section == nullptr) return;
        expect(entries_.count(event.section) == 1, "an event's section is gone");
        if (fault_.empty()) expect(event.section->event == &event, "a section's event");
    }

    void check_entry(const LineEntryRecord& entry) {
        expect(objects_.count(entry.object) == 1, "a line entry's object is gone");
        if (!fault_.empty()) return;
        const bool is_withdrawn = entry.state == LineState::withdrawn;
        const bool is_granted = entry.state == LineState::granted || is_withdrawn;
        expect(entry.line_link.is_linked() == !is_granted, "exactly those who wait stand in the line");
        expect(entry.caller_link.is_linked() == (entry.caller != nullptr), "caller_link");
        if (entry.caller != nullptr) {
            expect(events_.count(entry.caller) == 1 && !is_withdrawn, "who waits for a section is gone");
        }
        if (is_granted && !is_withdrawn && entry.kind == LineKind::section) {
            expect(entry.object->running == &entry, "a granted section that does not run");
        } else {
            expect(entry.object->running != &entry, "what runs is no granted section");
        }
        expect(entry.granted_link.is_linked() == (is_granted && !entry.is_told), "granted_link");
        if (entry.event == nullptr) return;
        expect(events_.count(entry.event) == 1, "a section's event is gone");
        if (fault_.empty()) expect(entry.event->section == &entry, "event's section");
    }

    void check_slot(const WorkerSlotRecord& slot) {
        for (const StationRecord* station : records(slot.ready, "ready station")) {
            expect(root_.slots[station->slot] == &slot, "ready in another slot");
        }
        for (const LineEntryRecord* entry : records(slot.granted, "granted entry")) {
            expect(root_.slots[entry->owner.slot] == &slot, "granted in another slot");
        }
        expect(slot.mailbox_depth == commands_[&slot], "mailbox_depth");
        if (slot.pid != 0) return;
        expect(slot.stations.empty() && slot.cursors.empty() && slot.events.empty() && slot.line_entries.empty() &&
                   slot.mailbox.empty() && slot.drafts.empty(),
               "a free slot owns something");
    }

    void check_indexes() {
        std::set<const ChannelRecord*> listed;
        for (const ChannelRecord* channel : channels_) {
            if (channel->is_listed) listed.insert(channel);
        }
        expect(indexed(root_.channels, "indexed channel") == listed, "index of channels");
        expect(indexed(root_.subscriptions, "indexed subscription") == subscriptions_, "index of subscriptions");
        expect(indexed(root_.events, "indexed event") == events_, "index of events");
        indexed(root_.budgets, "call budget");
        for (const ChannelRecord* channel : records(root_.untrimmed, "untrimmed channel")) {
            expect(channels_.count(channel) == 1, "an untrimmed channel of no object");
        }
    }

    const ZoneRoot& root_;
    const IsLive& is_live_;
    std::string fault_;
    std::set<const void*> reachable_;
    std::set<const ObjectRecord*> objects_;
    std::set<const ChannelRecord*> channels_;
    std::set<const CursorRecord*> cursors_;
    std::set<const CursorRecord*> placed_;
    std::set<const SubscriptionRecord*> subscriptions_;
    std::set<const StationRecord*> stations_;
    std::set<const EventRecord*> events_;
    std::set<const LineEntryRecord*> entries_;
    std::map<const WorkerSlotRecord*, std::uint32_t> commands_;
};

}  // namespace

std::string find_fault(const ZoneRoot& root, const IsLive& is_live) { return Inspection(root, is_live).run(); }

std::size_t count_reachable(const ZoneRoot& root) {
    const IsLive all = [](const void*) { return true; };
    Inspection inspection(root, all);
    inspection.run();
    return inspection.reachable() + root.budgets.count() + 5;  // the five indexes
}

void expect_consistent(const ZoneRoot& root, const IsLive& is_live) {
    CPPUNIT_ASSERT_EQUAL(std::string(), find_fault(root, is_live));
}

}  // namespace durable
