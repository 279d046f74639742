// SPDX-License-Identifier: BSD-2-Clause
#include "core/history.h"

#include <algorithm>
#include <charconv>

#include "core/object.h"

namespace durable {

namespace {

// What one hold of the lock copies.
constexpr std::size_t kBytesAtOnce = 128 * 1024;

void append_number(std::string& out, std::uint64_t number, int base) {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof text, number, base);
    out.append(text, end.ptr);
}

// Drops what is too old. nullptr when there is no such channel, or none any more.
ChannelRecord* expired_channel(ZoneLock& lock, std::string_view object_key, std::string_view name,
                               std::uint64_t now_ms) noexcept {
    for (bool is_more = true;;) {
        const ObjectRecord* object = find_object(lock, object_key);
        ChannelRecord* channel = object == nullptr ? nullptr : find_channel(lock, *object, name);
        if (channel == nullptr || !is_more) return channel;
        is_more = expire_messages(lock, *channel, now_ms);  // object and channel may end with it
    }
}

}  // namespace

void append_message_id(std::string& out, const MessageId& id) {
    append_number(out, id.epoch, 16);
    out.push_back('.');
    append_number(out, id.number, 10);
}

std::optional<MessageId> read_message_id(std::string_view text) {
    MessageId id;
    const std::size_t dot = text.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    std::from_chars(text.data(), text.data() + dot, id.epoch, 16);
    std::from_chars(text.data() + dot + 1, text.data() + text.size(), id.number, 10);
    std::string written;
    append_message_id(written, id);
    return written == text ? std::optional(id) : std::nullopt;
}

Resumption resume_after(ZoneLock& lock, std::string_view object_key, const std::vector<std::string>& channels,
                        std::string_view asked, std::uint64_t now_ms) {
    Resumption resumption;
    std::uint64_t forgotten = 0;
    bool is_one_gone = false;
    for (const std::string& name : channels) {
        const ChannelRecord* channel = expired_channel(lock, object_key, name, now_ms);
        is_one_gone |= channel == nullptr;
        if (channel == nullptr) continue;
        forgotten = std::max(forgotten, channel->forgotten);
        const std::uint64_t oldest = oldest_kept(*channel);
        if (oldest == 0 || (resumption.next.number != 0 && oldest > resumption.next.number)) continue;
        resumption.next.number = oldest;
    }
    const ObjectRecord* object = find_object(lock, object_key);
    if (object != nullptr) resumption.next.epoch = object->epoch;
    if (object != nullptr && is_one_gone) forgotten = std::max(forgotten, object->forgotten);
    const auto id = read_message_id(asked);
    const bool is_known = id && object != nullptr && object->epoch != 0 && id->epoch == object->epoch &&
                          id->number <= object->last_number;
    resumption.is_gap = !is_known || id->number < forgotten;
    if (resumption.is_gap) {
        resumption.start.kind = StartAt::oldest;
    } else {
        resumption.start = {StartAt::after, id->number};
    }
    return resumption;
}

KeptPage read_kept(ZoneLock& lock, std::string_view object_key, std::string_view name, std::uint64_t after,
                   std::size_t limit) {
    KeptPage page;
    const ObjectRecord* object = find_object(lock, object_key);
    const ChannelRecord* channel = object == nullptr ? nullptr : find_channel(lock, *object, name);
    if (channel == nullptr) {
        page.has_hole = object != nullptr && after < object->forgotten;
        return page;
    }
    page.has_hole = after < channel->forgotten;
    const MessageRecord* first = nullptr;
    for (const MessageRecord* m = channel->tail->prev; m != nullptr; m = m->prev) {
        if (!m->is_kept) continue;
        if (page.head.number == 0) page.head = {object->epoch, m->number};
        if (m->number <= after) break;
        first = m;
    }
    std::size_t bytes = 0;
    for (const MessageRecord* m = first; m != nullptr && m->number != 0; m = m->next) {
        if (!m->is_kept) continue;
        if (page.items.size() == limit || bytes > kBytesAtOnce) {
            page.is_complete = false;
            return page;
        }
        KeptMessage item;
        item.id = {object->epoch, m->number};
        TextChain{m->text, m->size + m->event_size}.append_to(item.text);
        item.event = item.text.substr(0, m->event_size);
        item.text.erase(0, m->event_size);
        bytes += item.text.size();
        page.items.push_back(std::move(item));
    }
    return page;
}

}  // namespace durable
