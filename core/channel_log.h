// SPDX-License-Identifier: BSD-2-Clause
// What channel.cpp and zone_repair.cpp share: a channel's log, who stands where in it, and the
// channel's end. `at` of a cursor and the forward chain from `first` are the truth; all else is
// derived from them, so their stores come in an order that a death in between does not spoil.
#pragma once

#include <cstdint>

#include "core/zone.h"

namespace durable {

// Puts the cursor among the message's readers. It stands nowhere before.
void place_reader(CursorRecord& cursor, MessageRecord& message) noexcept;
void take_reader_out(CursorRecord& cursor) noexcept;
void move_reader(CursorRecord& cursor, MessageRecord& message) noexcept;

// Fills the empty place at the end and puts a new one, `tail`, behind it.
MessageRecord& append_message(ChannelRecord& channel, MessageRecord& tail, const TextChain& text,
                              std::size_t event_size, bool is_kept, std::uint64_t now_ms) noexcept;

bool stands_before(const MessageRecord& message, const MessageRecord& other) noexcept;

// The oldest message kept for history, nullptr when none is.
MessageRecord* first_kept(ChannelRecord& channel) noexcept;
// Keeps it no longer; it goes unless somebody will read it.
void forget_message(ZoneLock& lock, ChannelRecord& channel, MessageRecord& message) noexcept;

// Frees what no position can reach any more, and the channel once nothing needs it (C-8), in bounded
// steps; `free_leftovers` goes on where they did not do. The channel may be gone after it.
void settle_channel(ZoneLock& lock, ChannelRecord& channel) noexcept;

// For repair alone. The first derives what the chain alone says and leaves every message without
// readers; once they are placed again, the second derives where the unread part begins.
void repair_log(ZoneLock& lock, ChannelRecord& channel) noexcept;
void repair_unread_from(ChannelRecord& channel) noexcept;

}  // namespace durable
