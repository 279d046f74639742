// SPDX-License-Identifier: BSD-2-Clause
// Channels of an object: one log, many positions (spec C-1 to C-31, H-1 to H-11).
// Names and texts are checked before they come here (text_rules.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/zone.h"

namespace durable {

enum class ChannelOutcome : std::uint8_t {
    ok,
    no_memory,           // nothing was changed
    channel_limit,       // C-2
    subscription_limit,  // C-3
};

// ---- publishing ------------------------------------------------------------------------------

// How long a message is kept (H-1); `messages` 0 keeps none.
struct HistoryRule {
    std::uint32_t messages = 0;
    std::uint64_t max_age_ms = 0;  // 0 = no limit
    std::uint64_t new_epoch = 0;   // random, for an object that has none yet
};

struct PublishResult {
    ChannelOutcome outcome = ChannelOutcome::ok;
    std::uint32_t delivered = 0;  // live subscriptions (C-15)
    std::uint64_t epoch = 0;      // with `number` the message's id; 0 = not kept
    std::uint64_t number = 0;
};

// `now_ms` is unix time. Its cost does not depend on the number of subscriptions.
[[nodiscard]] PublishResult publish(ZoneLock& lock, std::string_view object_key, std::string_view channel_name,
                                    std::string_view event, std::string_view text, const HistoryRule& history,
                                    std::uint64_t now_ms) noexcept;

// Closes the channel and returns how many subscriptions that ended (C-25). `reason` is stored once.
struct CloseResult {
    ChannelOutcome outcome = ChannelOutcome::ok;
    std::uint32_t closed = 0;
};
[[nodiscard]] CloseResult close_channel(ZoneLock& lock, std::string_view object_key, std::string_view channel_name,
                                        std::string_view reason) noexcept;

// C-29.
[[nodiscard]] std::uint32_t count_subscriptions(const ZoneLock& lock, std::string_view object_key,
                                                std::string_view channel_name) noexcept;

// ---- positions -------------------------------------------------------------------------------

// Where a position starts.
struct StartAt {
    enum Kind : std::uint8_t { newest, oldest, after } kind = newest;
    std::uint64_t number = 0;  // `after`: the first kept message with a higher number
};

// Puts a cursor that the caller made (and linked to its owner) into the channel, which is made if
// need be. On failure the cursor is as before.
[[nodiscard]] ChannelOutcome open_cursor(ZoneLock& lock, CursorRecord& cursor, std::string_view object_key,
                                         std::string_view channel_name, StartAt start = {}) noexcept;

// Takes the cursor out of its channel, whatever its state. Its owner may then free it.
void close_cursor(ZoneLock& lock, CursorRecord& cursor) noexcept;

// A cursor of the worker itself at the same place as `like`, moved `weight` subscriptions from it.
// nullptr when the zone is full. `like` loses the weight.
[[nodiscard]] CursorRecord* split_cursor(ZoneLock& lock, CursorRecord& like, std::uint32_t weight) noexcept;

// Moves all weight of `from` to `into`, and frees `from`. Both stand at the same place.
void join_cursor(ZoneLock& lock, CursorRecord& into, CursorRecord& from) noexcept;

// One subscription more on a cursor that has caught up. It is over at once where the cursor is.
[[nodiscard]] ChannelOutcome add_subscription(ZoneLock& lock, CursorRecord& cursor) noexcept;
// One less of several; the cursor stays. The last one goes with `destroy_cursor`.
void remove_subscription(ZoneLock& lock, CursorRecord& cursor) noexcept;

// A new cursor in this worker's slot, not yet in a channel. nullptr when the zone is full.
[[nodiscard]] CursorRecord* create_cursor(ZoneLock& lock) noexcept;
// Closes and frees it.
void destroy_cursor(ZoneLock& lock, CursorRecord* cursor) noexcept;

// Names this worker's station of the channel as the one to wake for the cursor.
[[nodiscard]] bool await_messages(ZoneLock& lock, CursorRecord& cursor) noexcept;
void stop_awaiting(ZoneLock& lock, CursorRecord& cursor) noexcept;
// Lets whoever awaits the cursor look at it, since it is about to end.
void notify_owner(ZoneLock& lock, CursorRecord& cursor) noexcept;
// Ends a dead worker's station: nobody waits for its cursors now.
void abandon_station(ZoneLock& lock, StationRecord& station) noexcept;

// The cursor's next message; nullptr when it has caught up (or is over).
inline const MessageRecord* next_message(const CursorRecord& cursor) noexcept {
    return cursor.at == nullptr || cursor.at->number == 0 ? nullptr : cursor.at;
}
inline bool has_caught_up(const CursorRecord& cursor) noexcept { return cursor.at != nullptr && cursor.at->number == 0; }
// Nothing more will come: all was read and the channel is closed.
inline bool is_drained(const CursorRecord& cursor) noexcept {
    return has_caught_up(cursor) && cursor.channel->is_closed;
}
// The message behind `message` that the cursor reads; its number is 0 at the end.
inline MessageRecord* following_message(const CursorRecord& cursor, const MessageRecord& message) noexcept {
    MessageRecord* next = message.next;
    while (next->number != 0 && next->number <= cursor.skip_until && !next->has_id) next = next->next;
    return next;
}
// Past the present message.
void move_on(ZoneLock& lock, CursorRecord& cursor) noexcept;

// ---- history ---------------------------------------------------------------------------------

// The number of the oldest kept message of the channel, 0 when none is.
[[nodiscard]] std::uint64_t oldest_kept(const ChannelRecord& channel) noexcept;

// nullptr when there is no such channel.
[[nodiscard]] ChannelRecord* find_channel(const ZoneLock& lock, const ObjectRecord& object,
                                          std::string_view channel_name) noexcept;

// Drops messages that are too old, a bounded number of them. True when there may be more. The channel
// is gone after it when nothing but these kept it.
bool expire_messages(ZoneLock& lock, ChannelRecord& channel, std::uint64_t now_ms) noexcept;

// Does so for some of the channels that keep messages, each time for others.
void expire_some_messages(ZoneLock& lock, std::uint64_t now_ms) noexcept;

// Makes room in a full zone: frees some of what nobody can read any more, then some kept messages of
// any channel (H-8). False when there are none.
bool shed_messages(ZoneLock& lock) noexcept;

inline bool lacks_memory(ChannelOutcome outcome) noexcept { return outcome == ChannelOutcome::no_memory; }
inline bool lacks_memory(const PublishResult& result) noexcept { return lacks_memory(result.outcome); }

// Does `work` again and again, until it answers something else than no memory or nothing is kept any
// more.
template <class Work>
auto with_room(ZoneLock& lock, Work&& work) noexcept {
    auto result = work();
    while (lacks_memory(result) && shed_messages(lock)) result = work();
    return result;
}

}  // namespace durable
