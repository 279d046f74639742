// SPDX-License-Identifier: BSD-2-Clause
#include "core/zone.h"

#include <algorithm>

#include "core/channel.h"
#include "core/event.h"
#include "core/line.h"
#include "core/mailbox.h"
#include "core/zone_repair.h"

namespace durable {

ZoneLock::ZoneLock(Zone& zone) noexcept : SharedLock(*zone.memory), zone_(zone) {
    const bool holder_died = zone.root->held_by != 0;
    zone.root->held_by = zone.pid;
    keep_store_order();
    if (holder_died) repair_zone(*this);
}

ZoneLock::~ZoneLock() {
    keep_store_order();
    zone_.root->held_by = 0;
}

void ZoneLock::copy_wakes_to(WakeList& out) noexcept {
    wakes_ = &out;
    ZoneRoot& root = *zone_.root;
    if (!root.must_wake_all) return;
    root.must_wake_all = false;
    for (std::uint16_t slot = 0; slot < root.slot_count; ++slot) {
        root.slots[slot]->is_woken = false;
        wake(slot);
    }
}

void ZoneLock::wake(std::uint16_t slot_index) noexcept {
    WorkerSlotRecord& slot = *zone_.root->slots[slot_index];
    if (slot.is_woken || slot.pid == 0) return;
    if (wakes_ == nullptr) return;
    slot.is_woken = true;
    if (slot_index == zone_.self.slot && slot.generation == zone_.self.generation) {
        wakes_->self = true;
        return;
    }
    WakeList::Target& target = wakes_->targets[wakes_->count++];
    target.size = slot.address_size;
    std::memcpy(target.address, slot.address, sizeof target.address);
}

ZoneRoot* make_zone_root(const SharedLock& lock, std::uint64_t bytes) noexcept {
    auto* root = lock.create<ZoneRoot>();
    if (root == nullptr) return nullptr;
    // One bucket for each 2 KiB: a record with what belongs to it takes more than half of that.
    std::uint32_t buckets = 256;
    while (buckets < bytes / 2048 && buckets < (1u << 22)) buckets *= 2;
    if (!root->objects.init(lock, buckets) || !root->channels.init(lock, buckets) ||
        !root->subscriptions.init(lock, buckets) || !root->events.init(lock, buckets / 4) ||
        !root->budgets.init(lock, buckets / 16)) {
        return nullptr;
    }
    root->layout_version = kLayoutVersion;
    return root;
}

bool claim_worker_slot(ZoneLock& lock, std::uint64_t start_time, std::string_view address) noexcept {
    ZoneRoot& root = lock.root();
    std::uint16_t index = 0;
    while (index < root.slot_count && root.slots[index]->pid != 0) ++index;
    if (index == kMaxWorkers) return false;
    if (index == root.slot_count) {
        auto* slot = lock.create<WorkerSlotRecord>();
        if (slot == nullptr) return false;
        root.slots[index] = slot;
        keep_store_order();
        ++root.slot_count;
    }
    WorkerSlotRecord& slot = *root.slots[index];
    slot.start_time = start_time;
    slot.address_size = static_cast<std::uint8_t>(address.copy(slot.address, sizeof slot.address));
    slot.is_woken = false;
    if (++slot.generation == 0) slot.generation = 1;
    keep_store_order();
    slot.pid = lock.zone().pid;
    lock.zone().self = {slot.generation, index};
    return true;
}

bool is_alive(const ZoneRoot& root, const WorkerRef& worker) noexcept {
    return worker.slot < root.slot_count && root.slots[worker.slot]->pid != 0 &&
           root.slots[worker.slot]->generation == worker.generation;
}

void forget_worker(ZoneLock& lock, std::uint16_t slot_index) noexcept {
    WorkerSlotRecord& slot = *lock.root().slots[slot_index];
    const WorkerRef worker{slot.generation, slot_index};
    slot.pid = 0;  // nobody wakes it any more
    while (CursorRecord* cursor = slot.cursors.front()) destroy_cursor(lock, cursor);
    while (EventRecord* event = slot.events.front()) end_event(lock, *event);
    while (LineEntryRecord* entry = slot.line_entries.front()) leave_line(lock, entry);
    // Waits that stood there for subscriptions of other workers' events.
    while (StationRecord* station = slot.stations.front()) abandon_station(lock, *station);
    forget_commands(lock, worker);
    slot.is_woken = false;
    lock.root().must_wake_all = true;  // it may have died before it sent the wake-ups it had noted
}

}  // namespace durable
