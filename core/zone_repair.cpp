// SPDX-License-Identifier: BSD-2-Clause
#include "core/zone_repair.h"

#include "core/channel.h"

namespace durable {

namespace {

template <class Record, class Visit>
void for_each(HashIndex<Record>& index, Visit&& visit) noexcept {
    std::uint32_t count = 0;
    for (std::uint32_t bucket = 0; bucket < index.bucket_count(); ++bucket) {
        for (Record* record = index.bucket(bucket); record != nullptr; record = record->hash_next) {
            visit(*record);
            ++count;
        }
    }
    index.set_count(count);
}

}  // namespace

void repair_zone(ZoneLock& lock) noexcept {
    ZoneRoot& root = lock.root();
    for (std::uint32_t i = 0; i < root.slot_count; ++i) {
        WorkerSlotRecord& slot = *root.slots[i];
        slot.stations.repair();
        slot.ready.repair();
        slot.cursors.repair();
        slot.events.repair();
        slot.line_entries.repair();
        slot.granted.repair();
        slot.mailbox.repair();
    }
    root.untrimmed.repair();
    for_each(root.objects, [](ObjectRecord& object) {
        object.channels.repair();
        object.events.repair();
        object.line.repair();
    });
    for_each(root.channels, [](ChannelRecord& channel) { channel.stations.repair(); });
    for_each(root.events, [](EventRecord& event) { event.subscriptions.repair(); });
    for_each(root.subscriptions, [](SubscriptionRecord&) {});
}

}  // namespace durable
