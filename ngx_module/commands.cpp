// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/commands.h"

#include "core/errors.h"
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
    const PostOutcome outcome = post(target, command);
    if (outcome != PostOutcome::ok) {
        callers_.erase(command.call);
        caller.call_ = 0;
    }
    return outcome;
}

PostOutcome Commands::post(const WorkerRef& target, const Command& command) noexcept {
    CommandRecord* draft = nullptr;
    if (is_long(command.text.size())) {
        draft = draft_command(zone_.zone(), command);
        if (draft == nullptr) return PostOutcome::no_memory;
    }
    PostOutcome outcome;
    {
        ZoneAccess access(zone_);
        outcome = draft == nullptr ? post_command(access, target, command) : post_draft(access, target, *draft);
    }
    if (draft != nullptr && outcome != PostOutcome::ok) discard_draft(zone_.zone(), *draft);
    return outcome;
}

void Commands::answer(const Command& command, std::int32_t result, std::string_view text) noexcept {
    guarded(ngx_cycle->log, "answering a command", [&] {
        answer_with(command, result, std::string(text));
        return NGX_OK;
    });
}

void Commands::answer_with(const Command& command, std::int32_t result, std::string text) noexcept {
    guarded(ngx_cycle->log, "answering a command", [&] {
        Command answer;
        answer.kind = CommandKind::answer;
        answer.token = command.token;
        answer.call = command.call;
        answer.result = result;
        answer.text = std::move(text);
        if (command.sender == zone_.zone().self) {
            deliver_answer(answer);
            return NGX_OK;
        }
        PostOutcome outcome = post(command.sender, answer);
        if (outcome == PostOutcome::no_memory && !answer.text.empty()) {
            // It may never fit; that the zone is full does sooner.
            answer.text.clear();
            answer.result = static_cast<std::int32_t>(ErrorCode::no_memory);
            outcome = post(command.sender, answer);
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
            CommandRecord* long_text = nullptr;
            {
                ZoneAccess access(zone_);
                is_taken = take_command(access, command, &long_text);
            }
            if (long_text != nullptr) read_draft(zone_.zone(), *long_text, command.text);
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
                if (post_command(access, one.first, one.second) == PostOutcome::no_memory)
                    unsent_.push_back(std::move(one));
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
