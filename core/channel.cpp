// SPDX-License-Identifier: BSD-2-Clause
#include "core/channel.h"

#include "core/channel_log.h"
#include "core/object.h"

namespace durable {

namespace {

// Messages that one publish may drop from the history.
constexpr int kForgetAtOnce = 256;
// Channels that a tick looks at, and messages that a full zone gives up before it tries again.
constexpr int kExpireAtOnce = 64;
constexpr int kShedAtOnce = 16;

// ---- the channel ----

std::uint32_t channel_hash(const ObjectRecord& object, std::string_view name) noexcept {
    return hash_bytes(name, object.hash);
}

ChannelRecord* create_channel(ZoneLock& lock, ObjectRecord& object, std::string_view name) noexcept {
    auto* channel = lock.create<ChannelRecord>();
    MessageRecord* tail = channel == nullptr ? nullptr : lock.create<MessageRecord>();
    if (tail == nullptr) {
        if (channel != nullptr) lock.destroy(channel);
        return nullptr;
    }
    channel->object = &object;
    ++object.references;
    channel->first = channel->unread_from = channel->kept_from = channel->tail = tail;
    channel->forgotten = object.forgotten;  // an earlier one of that name may have had some
    channel->name_size = static_cast<std::uint8_t>(name.copy(channel->name_bytes, sizeof channel->name_bytes));
    object.channels.push_back(*channel);
    ++object.channel_count;
    lock.root().channels.insert(*channel, channel_hash(object, name));
    return channel;
}

// A channel that exists for its history alone is no reason to refuse another one. Looks at a few.
void end_kept_channel(ZoneLock& lock, ObjectRecord& object) noexcept {
    int looked = 0;
    for (ChannelRecord* channel = object.channels.front(); channel != nullptr && looked < 256;
         channel = object.channels.next(*channel), ++looked) {
        if (!channel->is_listed || channel->live != 0) continue;
        channel->is_closed = true;
        channel->unread_from = channel->first;
        return settle_channel(lock, *channel);
    }
}

// Finds or makes object and channel. Whoever calls it settles the channel if nothing came of it.
struct FoundChannel {
    ChannelOutcome outcome = ChannelOutcome::ok;
    ChannelRecord* channel = nullptr;
};

FoundChannel need_channel(ZoneLock& lock, std::string_view object_key, std::string_view name) noexcept {
    ObjectRecord* object = refer_to_object(lock, object_key);
    if (object == nullptr) return {ChannelOutcome::no_memory, nullptr};
    FoundChannel found;
    found.channel = find_channel(lock, *object, name);
    if (found.channel == nullptr && object->channel_count >= lock.limits().channels) end_kept_channel(lock, *object);
    if (found.channel == nullptr && object->channel_count >= lock.limits().channels) {
        found.outcome = ChannelOutcome::channel_limit;
    } else if (found.channel == nullptr) {
        found.channel = create_channel(lock, *object, name);
        if (found.channel == nullptr) found.outcome = ChannelOutcome::no_memory;
    }
    release_object(lock, *object);
    return found;
}

// ---- stations ----

void make_ready(ZoneLock& lock, StationRecord& station) noexcept {
    if (!station.ready_link.is_linked()) lock.root().slots[station.slot]->ready.push_back(station);
    lock.wake(station.slot);
}

void make_stations_ready(ZoneLock& lock, ChannelRecord& channel) noexcept {
    for (StationRecord* station = channel.stations.front(); station != nullptr;
         station = channel.stations.next(*station)) {
        make_ready(lock, *station);
    }
}

void drop_for_backlog(CursorRecord& cursor) noexcept {
    cursor.state = CursorState::dropped;
    keep_store_order();
    take_reader_out(cursor);
    cursor.channel->live -= cursor.weight;
}

// C-27: ends the subscriptions that `bytes` more would take past the limit. Only the oldest readers
// can be among them.
void drop_overrun(ZoneLock& lock, ChannelRecord& channel, std::size_t bytes) noexcept {
    for (MessageRecord* message = channel.unread_from; message != channel.tail; message = message->next) {
        if (channel.bytes_appended + bytes - message->bytes_before <= lock.limits().backlog) return;
        while (message->readers != nullptr) drop_for_backlog(*message->readers);
    }
}

bool drop_expired(ZoneLock& lock, ChannelRecord& channel, std::uint64_t now_ms) noexcept {
    if (channel.keep_ms == 0) return false;
    for (int step = 0; step < kForgetAtOnce; ++step) {
        MessageRecord* message = first_kept(channel);
        if (message == nullptr || now_ms < message->published_ms + channel.keep_ms) return false;
        forget_message(lock, channel, *message);
    }
    return true;
}

// Counts `message` as kept, and drops those that it pushes out.
void keep_message(ZoneLock& lock, ChannelRecord& channel, MessageRecord& message, const HistoryRule& history,
                  std::uint64_t now_ms) noexcept {
    if (channel.kept == 0) channel.kept_from = &message;
    ++channel.kept;
    channel.keep_ms = history.max_age_ms;
    for (int step = 0; step < kForgetAtOnce && channel.kept > history.messages; ++step) {
        forget_message(lock, channel, *first_kept(channel));
    }
    drop_expired(lock, channel, now_ms);
}

}  // namespace

// ---- publishing ------------------------------------------------------------------------------

namespace {

PublishResult publish_once(ZoneLock& lock, std::string_view object_key, std::string_view channel_name,
                           std::string_view event, std::string_view text, const HistoryRule& history,
                           std::uint64_t now_ms) noexcept {
    PublishResult result;
    ChannelRecord* channel = nullptr;
    if (history.messages != 0) {
        const FoundChannel found = need_channel(lock, object_key, channel_name);
        if (found.outcome != ChannelOutcome::ok) return {found.outcome, 0, 0, 0};
        channel = found.channel;
    } else {
        const ObjectRecord* object = find_object(lock, object_key);
        channel = object == nullptr ? nullptr : find_channel(lock, *object, channel_name);
        if (channel == nullptr) return result;
    }
    TextChain chain;
    auto* tail = lock.create<MessageRecord>();
    if (tail == nullptr || !chain.assign(lock, event, text)) {
        if (tail != nullptr) lock.destroy(tail);
        settle_channel(lock, *channel);
        return {ChannelOutcome::no_memory, 0, 0, 0};
    }
    drop_overrun(lock, *channel, text.size());
    make_stations_ready(lock, *channel);
    result.delivered = channel->live;
    if (channel->live == 0 && history.messages == 0) {
        chain.release(lock);
        lock.destroy(tail);
        settle_channel(lock, *channel);
        return result;
    }
    const bool is_kept = history.messages != 0;
    if (is_kept && channel->object->epoch == 0) channel->object->epoch = history.new_epoch;
    MessageRecord& message = append_message(*channel, *tail, chain, event.size(), is_kept, now_ms);
    if (is_kept) {
        result.number = message.number;
        result.epoch = channel->object->epoch;
        keep_message(lock, *channel, message, history, now_ms);
    }
    settle_channel(lock, *channel);
    return result;
}

}  // namespace

PublishResult publish(ZoneLock& lock, std::string_view object_key, std::string_view channel_name,
                      std::string_view event, std::string_view text, const HistoryRule& history,
                      std::uint64_t now_ms) noexcept {
    return with_room(lock, [&] { return publish_once(lock, object_key, channel_name, event, text, history, now_ms); });
}

CloseResult close_channel(ZoneLock& lock, std::string_view object_key, std::string_view channel_name,
                          std::string_view reason) noexcept {
    const ObjectRecord* object = find_object(lock, object_key);
    ChannelRecord* channel = object == nullptr ? nullptr : find_channel(lock, *object, channel_name);
    if (channel == nullptr) return {};
    if (!channel->close_reason.assign(lock, reason)) return {ChannelOutcome::no_memory, 0};
    const std::uint32_t closed = channel->live;
    channel->is_closed = true;
    channel->live = 0;
    channel->unread_from = channel->first;  // passes what history alone kept again, to free it
    make_stations_ready(lock, *channel);
    settle_channel(lock, *channel);
    return {ChannelOutcome::ok, closed};
}

std::uint32_t count_subscriptions(const ZoneLock& lock, std::string_view object_key,
                                  std::string_view channel_name) noexcept {
    const ObjectRecord* object = find_object(lock, object_key);
    const ChannelRecord* channel = object == nullptr ? nullptr : find_channel(lock, *object, channel_name);
    return channel == nullptr ? 0 : channel->live;
}

// ---- positions -------------------------------------------------------------------------------

ChannelOutcome open_cursor(ZoneLock& lock, CursorRecord& cursor, std::string_view object_key,
                           std::string_view channel_name, StartAt start) noexcept {
    FoundChannel found;
    with_room(lock, [&] {
        found = need_channel(lock, object_key, channel_name);
        return found.outcome;
    });
    if (found.outcome != ChannelOutcome::ok) return found.outcome;
    ChannelRecord& channel = *found.channel;
    if (channel.live >= lock.limits().subscriptions) return ChannelOutcome::subscription_limit;
    MessageRecord* place = channel.tail;
    if (start.kind != StartAt::newest) {
        const std::uint64_t after = start.kind == StartAt::oldest ? 0 : start.number;
        for (MessageRecord* m = channel.tail->prev; m != nullptr && m->number > after; m = m->prev) {
            if (m->is_kept) place = m;
        }
    }
    place_reader(cursor, *place);
    if (stands_before(*place, *channel.unread_from)) channel.unread_from = place;
    cursor.channel = &channel;
    cursor.state = CursorState::reading;
    cursor.skip_until = start.kind == StartAt::newest ? 0 : channel.object->last_number;
    ++channel.cursors;
    channel.live += cursor.weight;
    return ChannelOutcome::ok;
}

void close_cursor(ZoneLock& lock, CursorRecord& cursor) noexcept {
    stop_awaiting(lock, cursor);
    take_reader_out(cursor);
    ChannelRecord* channel = cursor.channel;
    if (channel == nullptr) return;
    cursor.channel = nullptr;
    --channel->cursors;
    if (cursor.state == CursorState::reading && !channel->is_closed) channel->live -= cursor.weight;
    settle_channel(lock, *channel);
}

CursorRecord* create_cursor(ZoneLock& lock) noexcept {
    auto* cursor = lock.create<CursorRecord>();
    if (cursor != nullptr) lock.own_slot().cursors.push_back(*cursor);
    return cursor;
}

void destroy_cursor(ZoneLock& lock, CursorRecord* cursor) noexcept {
    close_cursor(lock, *cursor);
    cursor->owner_link.unlink();
    lock.destroy(cursor);
}

CursorRecord* split_cursor(ZoneLock& lock, CursorRecord& like, std::uint32_t weight) noexcept {
    CursorRecord* cursor = create_cursor(lock);
    if (cursor == nullptr) return nullptr;
    if (like.at != nullptr) place_reader(*cursor, *like.at);
    cursor->channel = like.channel;
    ++like.channel->cursors;
    cursor->state = like.state;
    cursor->skip_until = like.skip_until;
    cursor->weight = weight;
    like.weight -= weight;
    return cursor;
}

void join_cursor(ZoneLock& lock, CursorRecord& into, CursorRecord& from) noexcept {
    into.weight += from.weight;
    from.weight = 0;
    destroy_cursor(lock, &from);
}

ChannelOutcome add_subscription(ZoneLock& lock, CursorRecord& cursor) noexcept {
    ChannelRecord& channel = *cursor.channel;
    const bool is_live = cursor.state == CursorState::reading && !channel.is_closed;
    if (is_live && channel.live >= lock.limits().subscriptions) return ChannelOutcome::subscription_limit;
    ++cursor.weight;
    if (is_live) ++channel.live;
    return ChannelOutcome::ok;
}

void remove_subscription(ZoneLock& lock, CursorRecord& cursor) noexcept {
    --cursor.weight;
    if (cursor.state != CursorState::reading || cursor.channel->is_closed) return;
    --cursor.channel->live;
    settle_channel(lock, *cursor.channel);
}

bool await_messages(ZoneLock& lock, CursorRecord& cursor) noexcept {
    const std::uint16_t slot = lock.zone().self.slot;
    auto& stations = cursor.channel->stations;
    StationRecord* station = stations.front();
    while (station != nullptr && station->slot != slot) station = stations.next(*station);
    if (station == nullptr) {
        station = lock.create<StationRecord>();
        if (station == nullptr) return false;
        station->slot = slot;
        station->channel = cursor.channel;
        lock.own_slot().stations.push_back(*station);
        stations.push_back(*station);
    }
    station->cursors.push_back(cursor);
    cursor.station = station;
    return true;
}

void stop_awaiting(ZoneLock& lock, CursorRecord& cursor) noexcept {
    StationRecord* station = cursor.station;
    if (station == nullptr) return;
    cursor.station = nullptr;
    keep_store_order();
    cursor.station_link.unlink();
    if (!station->cursors.empty()) return;
    station->channel_link.unlink();
    station->channel = nullptr;
    // Its worker still has to look at one that is ready: somebody there waited for this cursor.
    if (station->ready_link.is_linked()) return;
    station->slot_link.unlink();
    lock.destroy(station);
}

void notify_owner(ZoneLock& lock, CursorRecord& cursor) noexcept {
    if (cursor.station != nullptr) make_ready(lock, *cursor.station);
}

void abandon_station(ZoneLock& lock, StationRecord& station) noexcept {
    while (CursorRecord* cursor = station.cursors.front()) {
        cursor->station = nullptr;
        cursor->station_link.unlink();
    }
    station.channel_link.unlink();
    station.ready_link.unlink();
    station.slot_link.unlink();
    lock.destroy(&station);
}

StationRecord* take_ready_station(ZoneLock& lock) noexcept {
    StationRecord* station = lock.own_slot().ready.pop_front();
    if (station != nullptr && station->cursors.empty()) {
        station->slot_link.unlink();
        lock.destroy(station);
    }
    return station;
}

void move_on(ZoneLock& lock, CursorRecord& cursor) noexcept {
    MessageRecord* next = following_message(cursor, *cursor.at);
    ChannelRecord& channel = *cursor.channel;
    move_reader(cursor, *next);
    settle_channel(lock, channel);
}

bool free_leftovers(ZoneLock& lock) noexcept {
    ChannelRecord* channel = lock.root().untrimmed.front();
    if (channel == nullptr) return false;
    settle_channel(lock, *channel);
    return !lock.root().untrimmed.empty();
}

// ---- history ---------------------------------------------------------------------------------

std::uint64_t oldest_kept(const ChannelRecord& channel) noexcept {
    if (channel.kept == 0) return 0;
    const MessageRecord* message = channel.kept_from;
    while (!message->is_kept) message = message->next;
    return message->number;
}

ChannelRecord* find_channel(const ZoneLock& lock, const ObjectRecord& object, std::string_view channel_name) noexcept {
    return lock.root().channels.find(channel_hash(object, channel_name), [&](const ChannelRecord& channel) {
        return channel.object == &object && channel.name() == channel_name;
    });
}

void expire_some_messages(ZoneLock& lock, std::uint64_t now_ms) noexcept {
    for (int step = 0; step < kExpireAtOnce; ++step) {
        ChannelRecord* channel = lock.root().keeping.pop_front();
        if (channel == nullptr) return;
        expire_messages(lock, *channel, now_ms);  // which puts it back behind the others
    }
}

bool shed_messages(ZoneLock& lock) noexcept {
    if (!lock.root().untrimmed.empty()) {
        free_leftovers(lock);
        return true;
    }
    ChannelRecord* channel = lock.root().keeping.pop_front();
    if (channel == nullptr) return false;
    for (int step = 0; step < kShedAtOnce && channel->kept != 0; ++step) {
        forget_message(lock, *channel, *first_kept(*channel));
    }
    settle_channel(lock, *channel);
    return true;
}

bool expire_messages(ZoneLock& lock, ChannelRecord& channel, std::uint64_t now_ms) noexcept {
    const bool is_more = drop_expired(lock, channel, now_ms);
    settle_channel(lock, channel);
    return is_more;
}

}  // namespace durable
