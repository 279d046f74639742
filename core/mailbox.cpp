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

constexpr int kBlocksAtOnce = 32;

void fill(CommandRecord& record, const Command& command, const WorkerRef& sender) noexcept {
    record.kind = command.kind;
    record.sender = sender;
    record.token = command.token;
    record.call = command.call;
    record.handle = command.handle;
    record.result = command.result;
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
    fill(*record, command, lock.zone().self);
    deliver(lock, *record, to.slot);
    return PostOutcome::ok;
}

bool take_command(ZoneLock& lock, Command& out, CommandRecord** long_text) {
    if (long_text != nullptr) *long_text = nullptr;
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
    if (long_text != nullptr && is_long(record->text.size)) {
        lock.own_slot().drafts.push_back(*record);
        *long_text = record;
        return true;
    }
    record->text.append_to(out.text);
    free_command(lock, *record);
    return true;
}

// ---- long texts ----

bool is_long(std::size_t text_size) noexcept { return text_size > kBlocksAtOnce * TextChain::kBlockBytes; }

CommandRecord* draft_command(Zone& zone, const Command& command) noexcept {
    CommandRecord* draft;
    {
        ZoneLock lock(zone);
        draft = lock.create<CommandRecord>();
        if (draft == nullptr) return nullptr;
        fill(*draft, command, zone.self);
        lock.own_slot().drafts.push_back(*draft);
    }
    std::string_view rest = command.text;
    TextBlock* last = nullptr;
    while (!rest.empty()) {
        ZoneLock lock(zone);
        for (int i = 0; i < kBlocksAtOnce && !rest.empty(); ++i) {
            const std::string_view part = rest.substr(0, TextChain::kBlockBytes);
            last = draft->text.append_block(lock, last, part);
            if (last == nullptr) break;
            rest.remove_prefix(part.size());
        }
        if (last == nullptr) break;
    }
    if (rest.empty()) return draft;
    discard_draft(zone, *draft);
    return nullptr;
}

PostOutcome post_draft(ZoneLock& lock, const WorkerRef& to, CommandRecord& draft) noexcept {
    if (!is_alive(lock.root(), to)) return PostOutcome::dead;
    draft.mailbox_link.unlink();
    deliver(lock, draft, to.slot);
    return PostOutcome::ok;
}

void discard_draft(Zone& zone, CommandRecord& draft) noexcept {
    for (;;) {
        ZoneLock lock(zone);
        if (draft.text.release_some(lock, kBlocksAtOnce)) continue;
        draft.mailbox_link.unlink();
        lock.destroy(&draft);
        return;
    }
}

void read_draft(Zone& zone, CommandRecord& draft, std::string& text) {
    struct Discard {
        Zone& zone;
        CommandRecord& draft;
        ~Discard() { discard_draft(zone, draft); }
    } discard{zone, draft};
    text.reserve(draft.text.size);
    draft.text.append_to(text);
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
    while (CommandRecord* draft = slot.drafts.pop_front()) free_command(lock, *draft);
}

}  // namespace durable
