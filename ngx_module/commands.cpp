// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/commands.h"

#include "ngx_module/log.h"
#include "ngx_module/worker.h"

namespace durable {

CommandCaller::~CommandCaller() {
    if (call_ != 0) commands_->callers_.erase(call_);
}

PostOutcome Commands::send(const WorkerRef& target, Command& command, CommandCaller& caller) {
    command.call = ++last_call_;
    command.sender = zone_.zone().self;
    callers_[command.call] = &caller;
    caller.commands_ = this;
    caller.call_ = command.call;
    caller.target_ = target;
    if (target == command.sender) {
        execute_command(zone_, command);
        return PostOutcome::ok;
    }
    PostOutcome outcome;
    {
        ZoneAccess access(zone_);
        outcome = post_command(access, target, command);
    }
    if (outcome != PostOutcome::ok) {
        callers_.erase(command.call);
        caller.call_ = 0;
    }
    return outcome;
}

void Commands::answer(const Command& command, std::int32_t result, std::string_view text) noexcept {
    guarded(ngx_cycle->log, "answering a command", [&] {
        Command answer;
        answer.kind = CommandKind::answer;
        answer.token = command.token;
        answer.call = command.call;
        answer.result = result;
        answer.text = text;
        if (command.sender == zone_.zone().self) {
            deliver_answer(answer);
            return NGX_OK;
        }
        PostOutcome outcome;
        {
            ZoneAccess access(zone_);
            outcome = post_command(access, command.sender, answer);
        }
        if (outcome == PostOutcome::no_memory) unsent_.emplace_back(command.sender, std::move(answer));
        return NGX_OK;
    });
}

void Commands::deliver_answer(const Command& answer) noexcept {
    const auto found = callers_.find(answer.call);
    if (found == callers_.end()) return;  // the caller's client has left
    CommandCaller* caller = found->second;
    callers_.erase(found);
    caller->call_ = 0;
    caller->on_answer(answer);
}

void Commands::receive(const Command& command) noexcept {
    if (command.kind == CommandKind::answer) return deliver_answer(command);
    guarded(ngx_cycle->log, "a command", [&] {
        execute_command(zone_, command);
        return NGX_OK;
    });
}

void Commands::on_wakeup() noexcept {
    for (;;) {
        Command command;
        bool is_taken = false;
        guarded(ngx_cycle->log, "reading the mailbox", [&] {
            ZoneAccess access(zone_);
            is_taken = take_command(access, command);
            return NGX_OK;
        });
        if (!is_taken) return;
        receive(command);
    }
}

void Commands::on_tick() noexcept {
    guarded(ngx_cycle->log, "the tick", [&] {
        std::vector<std::pair<WorkerRef, Command>> again = std::move(unsent_);
        unsent_.clear();
        std::vector<std::uint64_t> dead;
        {
            ZoneAccess access(zone_);
            for (auto& one : again) {
                if (post_command(access, one.first, one.second) == PostOutcome::no_memory) unsent_.push_back(std::move(one));
            }
            for (const auto& [call, caller] : callers_) {
                if (!is_alive((*access).root(), caller->target_)) dead.push_back(call);
            }
        }
        for (const std::uint64_t call : dead) {
            Command answer;
            answer.call = call;
            answer.result = kWorkerDied;
            deliver_answer(answer);
        }
        return NGX_OK;
    });
}

}  // namespace durable
