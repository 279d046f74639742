// SPDX-License-Identifier: BSD-2-Clause
// Commands between workers: what a host call must do to a connection of another worker travels
// there, and the answer travels back. Both sides hold ids, never each other's pointers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/zone.h"

namespace durable {

// A command as a worker holds it, outside the zone.
struct Command {
    CommandKind kind = CommandKind::answer;
    WorkerRef sender;
    EventToken token;
    std::uint64_t call = 0;
    std::uint64_t handle = 0;
    std::int32_t result = 0;
    std::string text;
};

enum class PostOutcome : std::uint8_t { ok, no_memory, dead };

// Results of an answer that no receiver gives itself.
inline constexpr std::int32_t kWorkerDied = -1;

// Puts the command into the worker's mailbox and wakes it; the sender is this worker.
[[nodiscard]] PostOutcome post_command(ZoneLock& lock, const WorkerRef& to, const Command& command) noexcept;

// Takes this worker's oldest command. False when there is none. With `long_text` given, the text of a
// command that is_long stays in the record put there, for `read_draft`; otherwise it is nullptr then.
[[nodiscard]] bool take_command(ZoneLock& lock, Command& out, CommandRecord** long_text = nullptr);

// ---- long texts: copied in several short holds of the lock, which the caller does not have ----

[[nodiscard]] bool is_long(std::size_t text_size) noexcept;

// Copies the command into the zone. nullptr when that is full.
[[nodiscard]] CommandRecord* draft_command(Zone& zone, const Command& command) noexcept;
// Posts it. Unless that is ok, it is to be discarded.
[[nodiscard]] PostOutcome post_draft(ZoneLock& lock, const WorkerRef& to, CommandRecord& draft) noexcept;
void discard_draft(Zone& zone, CommandRecord& draft) noexcept;
// Reads a taken command's text into `text`, and frees the record.
void read_draft(Zone& zone, CommandRecord& draft, std::string& text);

// Answers what a dead worker has not taken with kWorkerDied, and drops the answers it waited for.
void forget_commands(ZoneLock& lock, const WorkerRef& worker) noexcept;

}  // namespace durable
