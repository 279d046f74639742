// SPDX-License-Identifier: BSD-2-Clause
#include "core/channel_log.h"

#include <algorithm>

#include "core/object.h"

namespace durable {

namespace {

// Steps of freeing that one call may take; what is left goes to `free_leftovers`.
constexpr int kFreeAtOnce = 256;

void link_reader(CursorRecord& cursor, MessageRecord& message) noexcept {
    cursor.reader_next = message.readers;
    cursor.reader_link = &message.readers;
    if (message.readers != nullptr) message.readers->reader_link = &cursor.reader_next;
    message.readers = &cursor;
}

void unlink_reader(CursorRecord& cursor) noexcept {
    *cursor.reader_link = cursor.reader_next;
    if (cursor.reader_next != nullptr) cursor.reader_next->reader_link = cursor.reader_link;
    cursor.reader_next = nullptr;
    cursor.reader_link = nullptr;
}

void free_message(ZoneLock& lock, ChannelRecord& channel, MessageRecord& message) noexcept {
    if (message.prev != nullptr) message.prev->next = message.next;
    if (channel.first == &message) channel.first = message.next;
    if (channel.kept_from == &message) channel.kept_from = message.next;
    if (channel.unread_from == &message) channel.unread_from = message.next;
    if (message.next != nullptr) message.next->prev = message.prev;
    if (message.is_kept) --channel.kept;
    TextChain text{message.text, message.size + message.event_size};
    keep_store_order();
    text.release(lock);
    lock.destroy(&message);
}

// Frees what no position can reach any more. True when done.
bool trim(ZoneLock& lock, ChannelRecord& channel) noexcept {
    for (int step = 0; step < kFreeAtOnce; ++step) {
        MessageRecord* message = channel.unread_from;
        if (message == channel.tail || message->readers != nullptr) return true;
        channel.unread_from = message->next;
        if (!message->is_kept || channel.is_closed) free_message(lock, channel, *message);
    }
    return false;
}

void note_forgotten(ChannelRecord& channel, std::uint64_t number) noexcept {
    channel.forgotten = std::max(channel.forgotten, number);
}

void unlist(ZoneLock& lock, ChannelRecord& channel) noexcept {
    if (!channel.is_listed) return;
    channel.is_listed = false;
    if (channel.kept != 0) note_forgotten(channel, channel.tail->prev->number);
    channel.object->forgotten = std::max(channel.object->forgotten, channel.forgotten);
    lock.root().channels.remove(channel);
    --channel.object->channel_count;
}

}  // namespace

void place_reader(CursorRecord& cursor, MessageRecord& message) noexcept {
    cursor.at = &message;
    link_reader(cursor, message);
}

void take_reader_out(CursorRecord& cursor) noexcept {
    if (cursor.at == nullptr) return;
    unlink_reader(cursor);
    cursor.at = nullptr;
    keep_store_order();
}

void move_reader(CursorRecord& cursor, MessageRecord& message) noexcept {
    unlink_reader(cursor);
    place_reader(cursor, message);
    keep_store_order();
}

MessageRecord& append_message(ChannelRecord& channel, MessageRecord& tail, const TextChain& text,
                              std::size_t event_size, bool is_kept, std::uint64_t now_ms) noexcept {
    MessageRecord& message = *channel.tail;
    message.event_size = static_cast<std::uint16_t>(event_size);
    message.size = text.size - message.event_size;
    message.text = text.first;
    message.published_ms = now_ms;
    message.has_id = is_kept;
    message.is_kept = is_kept;
    tail.bytes_before = channel.bytes_appended + message.size;
    tail.prev = &message;
    keep_store_order();
    message.next = &tail;  // from here on it is published
    keep_store_order();
    message.number = channel.object->last_number + 1;
    keep_store_order();
    channel.object->last_number = message.number;
    channel.bytes_appended = tail.bytes_before;
    channel.tail = &tail;
    return message;
}

bool stands_before(const MessageRecord& message, const MessageRecord& other) noexcept {
    return message.number != 0 && (other.number == 0 || message.number < other.number);
}

MessageRecord* first_kept(ChannelRecord& channel) noexcept {
    if (channel.kept == 0) {
        channel.kept_from = channel.tail;
        return nullptr;
    }
    while (!channel.kept_from->is_kept) channel.kept_from = channel.kept_from->next;
    return channel.kept_from;
}

void forget_message(ZoneLock& lock, ChannelRecord& channel, MessageRecord& message) noexcept {
    note_forgotten(channel, message.number);
    message.is_kept = false;
    --channel.kept;
    if (stands_before(message, *channel.unread_from)) free_message(lock, channel, message);
}

void settle_channel(ZoneLock& lock, ChannelRecord& channel) noexcept {
    if (channel.live == 0 && (channel.kept == 0 || channel.is_closed)) unlist(lock, channel);
    if (channel.kept == 0 || !channel.is_listed) {
        channel.keeping_link.unlink();
    } else if (!channel.keeping_link.is_linked()) {
        lock.root().keeping.push_back(channel);
    }
    if (!trim(lock, channel)) {
        if (!channel.untrimmed_link.is_linked()) lock.root().untrimmed.push_back(channel);
        return;
    }
    channel.untrimmed_link.unlink();
    if (channel.is_listed || channel.cursors != 0) return;
    ObjectRecord& object = *channel.object;
    channel.object_link.unlink();
    keep_store_order();
    channel.close_reason.release(lock);
    lock.destroy(channel.tail);
    lock.destroy(&channel);
    release_object(lock, object);
}

void repair_log(ZoneLock& lock, ChannelRecord& channel) noexcept {
    ObjectRecord& object = *channel.object;
    MessageRecord* message = channel.first;
    message->prev = nullptr;
    channel.kept = 0;
    channel.kept_from = nullptr;
    for (; message->next != nullptr; message = message->next) {
        message->readers = nullptr;
        message->next->prev = message;
        if (message->number == 0) message->number = object.last_number + 1;
        keep_store_order();
        object.last_number = std::max(object.last_number, message->number);
        if (!message->is_kept) continue;
        ++channel.kept;
        if (channel.kept_from == nullptr) channel.kept_from = message;
    }
    // What was written into the empty place but not published is taken back.
    TextChain text{message->text, 0};
    message->text = nullptr;
    message->readers = nullptr;
    message->number = 0;
    message->size = 0;
    message->event_size = 0;
    message->has_id = false;
    message->is_kept = false;
    channel.tail = message;
    channel.bytes_appended = message->bytes_before;
    if (channel.kept_from == nullptr) channel.kept_from = message;
    if (!channel.is_closed) channel.close_reason.release(lock);
    keep_store_order();
    text.release(lock);
}

void repair_unread_from(ChannelRecord& channel) noexcept {
    MessageRecord* message = channel.first;
    while (message != channel.tail && message->readers == nullptr && message->is_kept && !channel.is_closed) {
        message = message->next;
    }
    channel.unread_from = message;
}

}  // namespace durable
