// SPDX-License-Identifier: BSD-2-Clause
// Random calls of everything, by a worker that finds in the zone what it owns. What they answer is
// not looked at: the zone has to be sound after each.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/tests/zone_fixture.h"

namespace durable {

class RandomWork {
public:
    explicit RandomWork(std::uint32_t seed) : random_(seed) {}

    void step(Worker& worker) {
        worker.locked([&](ZoneLock& lock) {
            switch (below(16)) {
                case 0:
                case 1:
                case 2: publish_one(lock); break;
                case 3: open_one(lock); break;
                case 4:
                case 5:
                case 6: change_cursor(lock); break;
                case 7: join_two(lock); break;
                case 8: change_events(lock); break;
                case 9:
                case 10: change_subscription(lock); break;
                case 11:
                    if (below(4) == 0) (void)close_channel(lock, object(), channel(), "reason");
                    break;
                case 12:
                case 13: change_line(lock); break;
                case 14: change_mailbox(lock); break;
                default: look(lock); break;
            }
        });
    }

    std::uint32_t below(std::uint32_t limit) { return random_() % limit; }

private:
    template <class Record, ListLink Record::*Member>
    Record* any(const IntrusiveList<Record, Member>& list) {
        std::vector<Record*> all;
        for (Record* record = list.front(); record != nullptr; record = list.next(*record)) all.push_back(record);
        return all.empty() ? nullptr : all[below(static_cast<std::uint32_t>(all.size()))];
    }
    template <class List>
    static bool is_longer(const List& list, int limit) {
        for (auto* record = list.front(); record != nullptr; record = list.next(*record)) {
            if (--limit < 0) return true;
        }
        return false;
    }

    std::string object() { return "o" + std::to_string(below(2)); }
    std::string channel() { return "c" + std::to_string(below(3)); }
    std::uint16_t any_slot(ZoneLock& lock) { return static_cast<std::uint16_t>(below(lock.root().slot_count)); }

    void publish_one(ZoneLock& lock) {
        const std::uint32_t size = below(8) == 0 ? 5000 : below(40);
        const HistoryRule rule{below(3) == 0 ? 1 + below(4) : 0, below(2) * 50, 1 + below(1000)};
        (void)publish(lock, object(), channel(), below(2) == 0 ? "event" : "", std::string(size, 'x'), rule, now());
    }

    void open_one(ZoneLock& lock) {
        if (is_longer(lock.own_slot().cursors, 12)) return;
        CursorRecord* cursor = create_cursor(lock);
        const StartAt starts[] = {{StartAt::newest, 0}, {StartAt::oldest, 0}, {StartAt::after, below(100)}};
        if (cursor == nullptr) return;
        if (open_cursor(lock, *cursor, object(), channel(), starts[below(3)]) != ChannelOutcome::ok) {
            destroy_cursor(lock, cursor);
        }
    }

    void change_cursor(ZoneLock& lock) {
        CursorRecord* cursor = any(lock.own_slot().cursors);
        if (cursor == nullptr) return;
        if (cursor->channel == nullptr || below(12) == 0) return destroy_cursor(lock, cursor);
        const bool is_open = has_caught_up(*cursor) && cursor->channel->is_listed;
        switch (below(6)) {
            case 0:
                if (cursor->station == nullptr) (void)await_messages(lock, *cursor);
                break;
            case 1: stop_awaiting(lock, *cursor); break;
            case 2:
                if (is_open) (void)add_subscription(lock, *cursor);
                break;
            case 3:
                if (cursor->weight > 1) remove_subscription(lock, *cursor);
                break;
            case 4:
                if (cursor->weight > 1) (void)split_cursor(lock, *cursor, 1);
                break;
            default:
                if (next_message(*cursor) != nullptr) move_on(lock, *cursor);
                break;
        }
    }

    void join_two(ZoneLock& lock) {
        CursorRecord* into = any(lock.own_slot().cursors);
        CursorRecord* from = any(lock.own_slot().cursors);
        if (into != from && into->at != nullptr && into->at == from->at) join_cursor(lock, *into, *from);
    }

    void change_events(ZoneLock& lock) {
        EventRecord* event = any(lock.own_slot().events);
        if (event != nullptr && (below(2) == 0 || is_longer(lock.own_slot().events, 3))) return end_event(lock, *event);
        EventToken token;
        for (std::uint8_t& byte : token.random) byte = static_cast<std::uint8_t>(below(256));
        token.worker = lock.zone().self;
        LineEntryRecord* section = nullptr;
        for (LineEntryRecord* entry = lock.own_slot().line_entries.front(); entry != nullptr;
             entry = lock.own_slot().line_entries.next(*entry)) {
            if (entry->object->running == entry && entry->event == nullptr) section = entry;
        }
        const std::string key = section == nullptr ? object() : std::string(section->object->key());
        (void)bind_event(lock, token, section == nullptr ? EventKind::fetch : EventKind::durable_block, key, section);
    }

    // Of an event of any worker, as host calls land anywhere.
    void change_subscription(ZoneLock& lock) {
        EventRecord* event = any(lock.root().slots[any_slot(lock)]->events);
        if (event == nullptr) return;
        CursorRecord* cursor = any(event->subscriptions);
        if (cursor == nullptr || (below(3) == 0 && !is_longer(event->subscriptions, 3))) {
            (void)subscribe(lock, *event, channel());
            return;
        }
        auto& subscription = reinterpret_cast<SubscriptionRecord&>(*cursor);
        std::string text;
        switch (below(4)) {
            case 0: cancel_subscription(lock, subscription); break;
            case 1:
                if (cursor->station == nullptr && cursor->channel != nullptr) (void)await_messages(lock, *cursor);
                break;
            default: (void)take_message(lock, subscription, text); break;
        }
    }

    void change_line(ZoneLock& lock) {
        LineEntryRecord* granted = below(2) == 0 ? take_granted(lock) : nullptr;
        if (granted != nullptr && granted->kind == LineKind::held) return leave_line(lock, granted);
        LineEntryRecord* entry = any(lock.own_slot().line_entries);
        if (entry != nullptr && below(2) == 0) return leave_line(lock, entry);
        if (entry != nullptr && below(4) == 0) (void)end_caller_wait(lock, *entry, ++ticket_);
        const EventRecord* event = any(lock.own_slot().events);
        if (event == nullptr || below(2) == 0) {
            (void)enter_line(lock, object(), below(2) == 0 ? LineKind::held : LineKind::section, ++ticket_, 12);
            return;
        }
        const LineCaller caller{event->token, ++ticket_};
        (void)enter_line(lock, event->object->key(), LineKind::section, ++ticket_, 12, &caller);
    }

    void change_mailbox(ZoneLock& lock) {
        Command command;
        if (below(2) == 0 || lock.own_slot().mailbox_depth > 5) {
            while (take_command(lock, command)) {}
            return;
        }
        command.kind = below(2) == 0 ? CommandKind::answer : CommandKind::stream_write;
        command.text = std::string(below(5000), 't');
        const std::uint16_t slot = any_slot(lock);
        if (lock.root().slots[slot]->mailbox_depth > 8) return;
        (void)post_command(lock, {lock.root().slots[slot]->generation, slot}, command);
    }

    void look(ZoneLock& lock) {
        lock.own_slot().is_woken = false;
        while (take_ready_station(lock) != nullptr) {}
        free_leftovers(lock);
        const ObjectRecord* object_found = find_object(lock, object());
        ChannelRecord* found = object_found == nullptr ? nullptr : find_channel(lock, *object_found, channel());
        if (found != nullptr) expire_messages(lock, *found, now());
    }

    std::uint64_t now() { return kNow + ++clock_; }

    std::mt19937 random_;
    std::uint64_t ticket_ = 0;
    std::uint64_t clock_ = 0;
};

}  // namespace durable
