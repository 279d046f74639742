// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/worker.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>

#include "core/hash_index.h"
#include "ngx_module/log.h"
#include "ngx_module/publishing.h"
#include "ngx_module/reader_group.h"

namespace durable {

namespace {

constexpr ngx_msec_t kTick = 500;  // a dead worker's section is over within a second
constexpr std::size_t kStationsAtOnce = 64;

// Field 22 of /proc/PID/stat: when the process started, which tells a reused pid from the old one.
// 0 when there is no such process.
std::uint64_t process_start_time(std::uint32_t pid) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) return 0;
    char text[1024];
    const ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0) return 0;
    text[size] = '\0';
    const char* at = std::strrchr(text, ')');  // the name before it may hold anything
    if (at == nullptr || at[1] == '\0' || at[2] == 'Z') return 0;
    for (int field = 2; field < 22 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
    return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

}  // namespace

// ---- WorkerZone ----

WorkerZone::WorkerZone(Worker& worker, const ZoneSettings& settings, std::uint32_t pid)
    : worker_(worker),
      memory_(reinterpret_cast<ngx_slab_pool_t*>(settings.shm_zone->shm.addr)),
      groups_(std::make_unique<ReaderGroups>(*this)),
      commands_(*this) {
    zone_.memory = &memory_;
    zone_.root = settings.root;
    zone_.limits = settings.limits;
    zone_.id = hash_bytes(view(settings.name));
    zone_.pid = pid;
}

WorkerZone::~WorkerZone() = default;

bool WorkerZone::claim() noexcept {
    if (is_claimed()) return true;
    if (!worker_.start()) return false;
    {
        ZoneAccess access(*this);
        if (!claim_worker_slot(access, worker_.start_time(), worker_.wakeup().address())) return false;
    }
    forget_the_dead();
    return true;
}

EventToken WorkerZone::new_token() {
    EventToken token;
    worker_.random_bytes(token.random, sizeof token.random);
    token.worker = zone_.self;
    token.zone = zone_.id;
    return token;
}

void WorkerZone::listen(StationListener& listener, StationRecord* station, bool early) {
    ignore(listener);
    auto [at, is_new] = stations_.try_emplace(station);
    if (is_new) {
        ngx_queue_init(&at->second);
    }
    listener.station_ = station;
    if (early) {
        ngx_queue_insert_head(&at->second, &listener.link_.queue);
    } else {
        ngx_queue_insert_tail(&at->second, &listener.link_.queue);
    }
}

void WorkerZone::ignore(StationListener& listener) noexcept {
    if (listener.station_ == nullptr) return;
    ngx_queue_remove(&listener.link_.queue);
    const auto at = stations_.find(listener.station_);
    if (at != stations_.end() && ngx_queue_empty(&at->second)) stations_.erase(at);
    listener.station_ = nullptr;
}

void WorkerZone::call_listeners(StationRecord* station) noexcept {
    const auto at = stations_.find(station);
    if (at == stations_.end()) return;
    // Listeners come and go while they are called; each that stays is put back before its call.
    ngx_queue_t todo;
    ngx_queue_init(&todo);
    ngx_queue_add(&todo, &at->second);
    ngx_queue_init(&at->second);
    while (!ngx_queue_empty(&todo)) {
        ngx_queue_t* link = ngx_queue_head(&todo);
        StationListener& listener = *(ngx_queue_data(link, StationListener::Link, queue))->owner;
        ngx_queue_remove(link);
        const auto again = stations_.try_emplace(station);
        if (again.second) {
            ngx_queue_init(&again.first->second);
        }
        ngx_queue_insert_tail(&again.first->second, link);
        listener.on_station_ready();
    }
}

void WorkerZone::on_wakeup() noexcept {
    if (!is_claimed()) return;
    for (bool more = true; more;) {
        StationRecord* ready[kStationsAtOnce];
        std::size_t count = 0;
        {
            ZoneAccess access(*this);
            ZoneLock& lock = access;
            lock.own_slot().is_woken = false;
            while (count < kStationsAtOnce && (ready[count] = take_ready_station(lock)) != nullptr) ++count;
            more = count == kStationsAtOnce;
            free_leftovers(lock);
        }
        for (std::size_t i = 0; i < count; ++i) call_listeners(ready[i]);
    }
    call_waiters();
    commands_.on_wakeup();
}

// Those whose turn in a line has come.
void WorkerZone::call_waiters() noexcept {
    for (bool more = true; more;) {
        std::uint64_t tickets[kStationsAtOnce];
        std::size_t count = 0;
        {
            ZoneAccess access(*this);
            while (count < kStationsAtOnce) {
                const LineEntryRecord* entry = take_granted(access);
                if (entry == nullptr) break;
                tickets[count++] = entry->ticket;
            }
            more = count == kStationsAtOnce;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const auto found = waiters_.find(tickets[i]);
            if (found == waiters_.end()) continue;  // it left while the others were called
            LineWaiter& waiter = *found->second;
            if (waiter.entry_ != nullptr && waiter.entry_->kind == LineKind::held) waiter.leave_line();
            waiter.on_granted();
        }
    }
}

void WorkerZone::on_tick() noexcept {
    if (!is_claimed()) return;
    forget_the_dead();
    commands_.on_tick();
    {
        ZoneAccess access(*this);
        expire_some_messages(access, unix_ms());
    }
    on_wakeup();  // a wake-up may have been lost with its sender
}

void WorkerZone::forget_the_dead() noexcept {
    struct Seen {
        std::uint64_t start_time;
        std::uint32_t pid, generation;
    };
    Seen seen[kMaxWorkers];
    std::uint32_t count;
    {
        ZoneAccess access(*this);
        const ZoneRoot& root = (*access).root();
        count = root.slot_count;
        for (std::uint32_t i = 0; i < count; ++i) seen[i] = {root.slots[i]->start_time, root.slots[i]->pid, root.slots[i]->generation};
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        if (seen[i].pid == 0 || seen[i].pid == zone_.pid || process_start_time(seen[i].pid) == seen[i].start_time) continue;
        ZoneAccess access(*this);
        const WorkerSlotRecord& slot = *(*access).root().slots[i];
        if (slot.pid == seen[i].pid && slot.generation == seen[i].generation) forget_worker(access, static_cast<std::uint16_t>(i));
    }
}

void WorkerZone::leave() noexcept {
    if (!is_claimed()) return;
    ZoneAccess access(*this);
    forget_worker(access, zone_.self.slot);
    zone_.self = WorkerRef();
}

ZoneAccess::~ZoneAccess() {
    // What is left to free is freed soon, not with the next ticks.
    if (zone_.is_claimed() && !lock_->root().untrimmed.empty()) lock_->wake(zone_.zone().self.slot);
    lock_.reset();
    if (wakes_.self || wakes_.count != 0) zone_.worker().wakeup().send(wakes_);
}

// ---- Worker ----

Worker::Worker(MainSettings& settings) : wakeup_(*this) {
    const auto pid = static_cast<std::uint32_t>(ngx_getpid());
    start_time_ = process_start_time(pid);
    auto* const* zones = static_cast<ZoneSettings**>(settings.zones.elts);
    for (ngx_uint_t i = 0; i < settings.zones.nelts; ++i) zones_.push_back(std::make_unique<WorkerZone>(*this, *zones[i], pid));
    tick_.data = this;
    tick_.handler = on_tick;
    tick_.cancelable = 1;
}

Worker* Worker::of(MainSettings& settings) noexcept {
    if (settings.worker != nullptr) return settings.worker;
    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE) return nullptr;
    guarded(ngx_cycle->log, "starting a worker", [&] {
        settings.worker = new Worker(settings);
        return NGX_OK;
    });
    return settings.worker;
}

void Worker::leave(MainSettings& settings) noexcept {
    Worker* worker = settings.worker;
    if (worker == nullptr) return;
    for (auto& zone : worker->zones_) zone->leave();
    if (worker->tick_.timer_set) ngx_del_timer(&worker->tick_);
    worker->wakeup_.close();
    settings.worker = nullptr;
    delete worker;
}

bool Worker::start() noexcept {
    if (wakeup_.is_open()) return true;
    tick_.log = ngx_cycle->log;
    if (!wakeup_.open(ngx_cycle->log)) return false;
    ngx_add_timer(&tick_, kTick);
    return true;
}

void Worker::random_bytes(void* out, std::size_t bytes) {
    if (random_used_ + bytes > sizeof random_) {
        for (std::size_t filled = 0; filled < sizeof random_;) {
            const ssize_t n = getrandom(random_ + filled, sizeof random_ - filled, 0);
            if (n > 0) filled += static_cast<std::size_t>(n);
        }
        random_used_ = 0;
    }
    std::memcpy(out, random_ + random_used_, bytes);
    std::memset(random_ + random_used_, 0, bytes);
    random_used_ += bytes;
}

void Worker::on_wakeup() noexcept {
    for (auto& zone : zones_) zone->on_wakeup();
}

void Worker::on_quit() noexcept {
    for (auto& zone : zones_) zone->groups().end_all();
    // nginx exits as soon as all timers may be cancelled, without running what was posted: HTTP/2
    // closes its connections that way.
    tick_.cancelable = 0;
    if (tick_.timer_set) ngx_del_timer(&tick_);
    ngx_add_timer(&tick_, 1);
}

void Worker::on_tick(ngx_event_t* event) noexcept {
    auto& worker = *static_cast<Worker*>(event->data);
    for (auto& zone : worker.zones_) zone->on_tick();
    event->cancelable = 1;
    ngx_add_timer(event, kTick);
}

}  // namespace durable
