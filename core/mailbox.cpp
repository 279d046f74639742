// SPDX-License-Identifier: BSD-2-Clause
#include "core/mailbox.h"

namespace durable {

namespace {

void deliver(ZoneLock& lock, CommandRecord& record, std::uint16_t slot_index) noexcept {
    WorkerSlotRecord& slot = *lock.root().slots[slot_index];
    slot.mailbox.push_back(record);
    ++slot.mailbox_depth;
    lock.wake(slot_index);
}

void free_command(ZoneLock& lock, CommandRecord& record) noexcept {
    record.text.release(lock);
    lock.destroy(&record);
}

}  // namespace

PostOutcome post_command(ZoneLock& lock, const WorkerRef& to, const Command& command) noexcept {
    if (!is_alive(lock.root(), to)) return PostOutcome::dead;
    auto* record = lock.create<CommandRecord>();
    if (record == nullptr) return PostOutcome::no_memory;
    if (!record->text.assign(lock, command.text)) {
        lock.destroy(record);
        return PostOutcome::no_memory;
    }
    record->kind = command.kind;
    record->sender = lock.zone().self;
    record->token = command.token;
    record->call = command.call;
    record->handle = command.handle;
    record->result = command.result;
    deliver(lock, *record, to.slot);
    return PostOutcome::ok;
}

bool take_command(ZoneLock& lock, Command& out) {
    CommandRecord* record = lock.own_slot().mailbox.pop_front();
    if (record == nullptr) return false;
    --lock.own_slot().mailbox_depth;
    out.kind = record->kind;
    out.sender = record->sender;
    out.token = record->token;
    out.call = record->call;
    out.handle = record->handle;
    out.result = record->result;
    out.text.clear();
    record->text.append_to(out.text);
    free_command(lock, *record);
    return true;
}

void forget_commands(ZoneLock& lock, const WorkerRef& worker) noexcept {
    WorkerSlotRecord& slot = *lock.root().slots[worker.slot];
    while (CommandRecord* record = slot.mailbox.pop_front()) {
        --slot.mailbox_depth;
        if (record->kind == CommandKind::answer || !is_alive(lock.root(), record->sender)) {
            free_command(lock, *record);
            continue;
        }
        record->text.release(lock);
        record->kind = CommandKind::answer;
        record->result = kWorkerDied;
        deliver(lock, *record, record->sender.slot);
    }
}

}  // namespace durable
