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

// Takes this worker's oldest command. False when there is none.
[[nodiscard]] bool take_command(ZoneLock& lock, Command& out);

// Answers what a dead worker has not taken with kWorkerDied, and drops the answers it waited for.
void forget_commands(ZoneLock& lock, const WorkerRef& worker) noexcept;

}  // namespace durable
