// SPDX-License-Identifier: BSD-2-Clause
// Resuming a stream from the id of the last message that a client has (spec H-2 to H-6, H-10).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/channel.h"

namespace durable {

struct MessageId {
    std::uint64_t epoch = 0;
    std::uint64_t number = 0;
};

// `EPOCH.N`: hexadecimal and decimal digits. Appends it.
void append_message_id(std::string& out, const MessageId& id);
// Nothing for whatever append_message_id does not write.
[[nodiscard]] std::optional<MessageId> read_message_id(std::string_view text);

// Where a stream over `channels` begins for a client that has `asked`.
struct Resumption {
    StartAt start;
    bool is_gap = false;  // something after `asked` may be missing (H-4)
    MessageId next;       // of the first message that is kept; number 0: none is
};
// Messages that are too old are dropped first. Taking the positions belongs into the same hold of the
// lock (H-3).
[[nodiscard]] Resumption resume_after(ZoneLock& lock, std::string_view object_key,
                                      const std::vector<std::string>& channels, std::string_view asked,
                                      std::uint64_t now_ms);

// A part of what is kept of a channel after a number (H-10).
struct KeptMessage {
    MessageId id;
    std::string event, text;
};
struct KeptPage {
    std::vector<KeptMessage> items;
    bool is_complete = true;  // nothing that is kept is left out
    bool has_hole = false;    // something after the number was dropped
    MessageId head;           // the newest that is kept; number 0: none is
};
// At most `limit` messages, fewer where their texts are long.
[[nodiscard]] KeptPage read_kept(ZoneLock& lock, std::string_view object_key, std::string_view channel,
                                 std::uint64_t after, std::size_t limit);

}  // namespace durable
