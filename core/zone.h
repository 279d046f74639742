// SPDX-License-Identifier: BSD-2-Clause
// A worker's view of one zone, its slot there, and whom a change has to wake.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/records.h"
#include "core/shared_memory.h"

namespace durable {

// The zone's limits (`durable_zone`), from the configuration of the process that acts.
struct ZoneLimits {
    std::uint32_t channels = 64;        // of an object (C-2)
    std::uint32_t subscriptions = 256;  // of a channel (C-3)
    std::uint64_t backlog = 1048576;    // unread text bytes of a subscription (C-27)
};

struct Zone {
    SharedMemory* memory = nullptr;
    ZoneRoot* root = nullptr;
    ZoneLimits limits;
    std::uint32_t id = 0;   // a hash of the zone's name, for tokens
    std::uint32_t pid = 0;  // of this process, never 0: with it the lock says who holds it
    WorkerRef self;         // generation 0: no slot claimed yet
};

// The workers to wake once the lock is released. A wake-up carries nothing.
struct WakeList {
    struct Target {
        std::uint8_t size;
        char address[14];
    };
    bool self = false;
    std::uint16_t count = 0;
    Target targets[kMaxWorkers];
};

// The lock of one zone with what the holder has to do after it.
class ZoneLock : public SharedLock {
public:
    explicit ZoneLock(Zone& zone) noexcept;
    ~ZoneLock();

    Zone& zone() const noexcept { return zone_; }
    ZoneRoot& root() const noexcept { return *zone_.root; }
    const ZoneLimits& limits() const noexcept { return zone_.limits; }
    WorkerSlotRecord& own_slot() const noexcept { return *zone_.root->slots[zone_.self.slot]; }

    // Notes that the worker in `slot` has something to look at.
    void wake(std::uint16_t slot) noexcept;
    // Read it after the lock is gone.
    void copy_wakes_to(WakeList& out) noexcept;

private:
    Zone& zone_;
    WakeList* wakes_ = nullptr;
};

// Fills a new zone of `bytes`. nullptr when they do not even hold the root.
[[nodiscard]] ZoneRoot* make_zone_root(const SharedLock& lock, std::uint64_t bytes) noexcept;

// Claims a slot for this process and remembers it in the lock's zone. False when there is no slot or
// no memory. `start_time` is field 22 of /proc/PID/stat, `address` the wake-up socket's.
[[nodiscard]] bool claim_worker_slot(ZoneLock& lock, std::uint64_t start_time, std::string_view address) noexcept;

// Frees the slot with everything its worker owned: subscriptions end, sections fail and the line
// moves on, commands to it are answered (C-14, X-16).
void forget_worker(ZoneLock& lock, std::uint16_t slot) noexcept;

bool is_alive(const ZoneRoot& root, const WorkerRef& worker) noexcept;

// The slot's next station with something to look at; it is no longer ready then. The address alone
// may be used, as the name under which its waits are known: one that nobody awaits any more is freed.
[[nodiscard]] StationRecord* take_ready_station(ZoneLock& lock) noexcept;

// Frees what was too much for the call that made it free. True when there is still more.
bool free_leftovers(ZoneLock& lock) noexcept;

}  // namespace durable
