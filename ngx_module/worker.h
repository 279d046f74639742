// SPDX-License-Identifier: BSD-2-Clause
// What a worker process has of the zones: its slots, whom to call when a wake-up comes, and the
// look after dead workers, twice a second. Made at the first use, gone with the process.
#pragma once

#include <optional>

#include "core/zone.h"
#include "ngx_module/commands.h"
#include "ngx_module/line_waiter.h"
#include "ngx_module/request_context.h"
#include "ngx_module/settings.h"
#include "ngx_module/slab_memory.h"
#include "ngx_module/wakeup.h"

namespace durable {

class ReaderGroups;
class Section;

// Called when a station of this worker has something to look at. Linked to one station at a time.
class StationListener {
public:
    virtual void on_station_ready() noexcept = 0;

protected:
    StationListener() noexcept { link_.owner = this; }
    ~StationListener() = default;
    StationListener(const StationListener&) = delete;

private:
    friend class WorkerZone;
    struct Link {
        ngx_queue_t queue{};
        StationListener* owner = nullptr;
    };
    Link link_;
    StationRecord* station_ = nullptr;  // nullptr: not linked
};

// One zone as this worker sees it.
class WorkerZone {
public:
    WorkerZone(Worker& worker, const ZoneSettings& settings, std::uint32_t pid);
    ~WorkerZone();

    Worker& worker() noexcept { return worker_; }
    Zone& zone() noexcept { return zone_; }
    ReaderGroups& groups() noexcept { return *groups_; }
    RunningEvents& events() noexcept { return events_; }
    RunningByToken<Section>& sections() noexcept { return sections_; }
    Commands& commands() noexcept { return commands_; }

    // Makes sure that this worker has a slot. False when the zone is full.
    [[nodiscard]] bool claim() noexcept;
    bool is_claimed() const noexcept { return zone_.self.generation != 0; }

    // The token of an event that is to run here.
    [[nodiscard]] EventToken new_token();

    // `early` ones are called before the others of the station.
    void listen(StationListener& listener, StationRecord* station, bool early);
    void ignore(StationListener& listener) noexcept;

    // A name for who waits in a line; see LineWaiter.
    std::uint64_t new_ticket() noexcept { return ++last_ticket_; }
    void keep_ticket(std::uint64_t ticket, LineWaiter& waiter) { waiters_[ticket] = &waiter; }
    void drop_ticket(std::uint64_t ticket) noexcept { waiters_.erase(ticket); }

    void on_wakeup() noexcept;
    void on_tick() noexcept;
    void leave() noexcept;

private:
    void call_waiters() noexcept;
    void call_listeners(StationRecord* station) noexcept;
    void forget_the_dead() noexcept;

    Worker& worker_;
    SlabMemory memory_;
    Zone zone_;
    std::unordered_map<StationRecord*, ngx_queue_t> stations_;
    std::unique_ptr<ReaderGroups> groups_;
    RunningEvents events_;
    RunningByToken<Section> sections_;
    Commands commands_;
    std::unordered_map<std::uint64_t, LineWaiter*> waiters_;
    std::uint64_t last_ticket_ = 0;
};

// Holds a zone's lock; what has to be woken is woken once it is released. The slot must be claimed
// for whatever makes records.
class ZoneAccess {
public:
    explicit ZoneAccess(WorkerZone& zone) noexcept : zone_(zone) {
        lock_.emplace(zone.zone());
        wakes_.count = 0;
        wakes_.self = false;
        lock_->copy_wakes_to(wakes_);
    }
    ~ZoneAccess();
    ZoneLock& operator*() noexcept { return *lock_; }
    operator ZoneLock&() noexcept { return *lock_; }

private:
    WorkerZone& zone_;
    WakeList wakes_;
    std::optional<ZoneLock> lock_;
};

class Worker {
public:
    explicit Worker(MainSettings& settings);

    // This process's, made if need be. nullptr in a process that serves no requests.
    static Worker* of(MainSettings& settings) noexcept;
    // Called in exit_process.
    static void leave(MainSettings& settings) noexcept;

    WorkerZone& zone(const ZoneSettings& settings) noexcept { return *zones_[settings.index]; }
    Wakeup& wakeup() noexcept { return wakeup_; }
    std::uint64_t start_time() const noexcept { return start_time_; }
    // From the kernel's random source.
    void random_bytes(void* out, std::size_t bytes);

    // Opens what a claimed zone needs: the wake-up socket and the tick.
    [[nodiscard]] bool start() noexcept;
    void on_wakeup() noexcept;
    // The worker was asked to quit: streams end at a message boundary.
    void on_quit() noexcept;

private:
    static void on_tick(ngx_event_t* event) noexcept;

    std::vector<std::unique_ptr<WorkerZone>> zones_;
    Wakeup wakeup_;
    ngx_event_t tick_{};
    std::uint64_t start_time_ = 0;
    unsigned char random_[2048];  // fetched ahead, each byte used once
    std::size_t random_used_ = sizeof random_;
};

}  // namespace durable
