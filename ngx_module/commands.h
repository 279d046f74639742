// SPDX-License-Identifier: BSD-2-Clause
// Commands between workers: sent to whichever worker runs an event, answered back to the sender.
// A command to this worker itself takes the same way without the mailbox.
#pragma once

#include "core/mailbox.h"
#include "ngx_module/nginx.h"

namespace durable {

class WorkerZone;

// Who waits for a command's answer. Destroying it forgets the call.
class CommandCaller {
public:
    // The answer has come; it may come before `send_command` returns. `result` is kWorkerDied when
    // the other worker is gone.
    virtual void on_answer(const Command& answer) noexcept = 0;

    bool is_waiting() const noexcept { return call_ != 0; }

protected:
    CommandCaller() = default;
    ~CommandCaller();
    CommandCaller(const CommandCaller&) = delete;

private:
    friend class Commands;
    class Commands* commands_ = nullptr;
    std::uint64_t call_ = 0;
    WorkerRef target_;
};

// The commands of one worker in one zone.
class Commands {
public:
    explicit Commands(WorkerZone& zone) noexcept : zone_(zone) {}

    // Sends `command` (kind, token, handle, text) to `target`. ok: on_answer will be called, or was.
    [[nodiscard]] PostOutcome send(const WorkerRef& target, Command& command, CommandCaller& caller);

    // Answers a command that came; `command.sender` and `command.call` say to whom. One that finds
    // the zone full is tried again with the next ticks.
    void answer(const Command& command, std::int32_t result, std::string_view text = {}) noexcept;
    // The same without a copy of a text that may be long.
    void answer_with(const Command& command, std::int32_t result, std::string text) noexcept;

    // Takes what lies in the mailbox.
    void on_wakeup() noexcept;
    // Answers those who wait for a dead worker, and sends what found no room.
    void on_tick() noexcept;

private:
    friend class CommandCaller;
    PostOutcome post(const WorkerRef& target, const Command& command) noexcept;
    void receive(const Command& command) noexcept;
    void deliver_answer(const Command& answer) noexcept;

    WorkerZone& zone_;
    std::unordered_map<std::uint64_t, CommandCaller*> callers_;
    std::vector<std::pair<WorkerRef, Command>> unsent_;
    std::uint64_t last_call_ = 0;
};

// What a worker does with a command for an event of its own: makes the answer, at once or later.
// Defined where the event's request is known: event_commands.cpp.
void execute_command(WorkerZone& zone, const Command& command);

}  // namespace durable
