// SPDX-License-Identifier: BSD-2-Clause
#include "core/store_worker.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>

#include "core/digest.h"
#include "core/store_schema.h"
#include "core/suspension.h"

namespace durable {
namespace {

constexpr std::int64_t kTickMs = 1000;
constexpr std::int64_t kBusyRetryMs = 50;
constexpr std::int64_t kSweepMs = 60000;
constexpr int kTrimsPerTick = 10;

constexpr char kDataVersion[] = "PRAGMA data_version";

timeval to_timeval(std::int64_t ms) noexcept { return {ms / 1000, (ms % 1000) * 1000}; }

}  // namespace

StoreWorker::StoreWorker(const StoreSettings& settings, StoreQueue& queue)
    : settings_(settings),
      queue_(queue),
      database_(queue.stop_flag()),
      subscriptions_(database_),
      log_(database_),
      delivery_(database_, log_) {}

StoreWorker::~StoreWorker() {
    for (event* one : {wake_event_, notify_event_, tick_event_, pump_event_}) {
        if (one != nullptr) event_free(one);
    }
    deliverer_.reset();
    if (base_ != nullptr) {
        // A connection with a callback under way is freed only when the loop has come round to it.
        event_base_loop(base_, EVLOOP_NONBLOCK);
        event_base_free(base_);
    }
    database_.close();
    // Frees the deliverer's lock too.
    if (lock_fd_ >= 0) ::close(lock_fd_);
    if (notify_fd_ >= 0) ::close(notify_fd_);
}

void StoreWorker::run() {
    base_ = event_base_new();
    if (base_ == nullptr) {
        notice("durable: store thread has no event loop", true);
        return;
    }
    const auto send = [this](std::uint64_t stream, std::string frames) {
        queue_.complete({{Completion::Kind::stream_data, stream, 200, false, std::move(frames)}});
    };
    streams_ = std::make_unique<LiveStreams>(database_, log_, delivery_, uuid_v4(), send);
    deliverer_ = std::make_unique<Deliverer>(database_, delivery_, settings_.handlers, settings_.calls_per_handler,
                                             base_, [this] { schedule_pump(0); });
    wake_event_ = event_new(base_, queue_.wake_fd(), EV_READ | EV_PERSIST, on_wake, this);
    tick_event_ = event_new(base_, -1, EV_PERSIST, on_tick, this);
    pump_event_ = evtimer_new(base_, on_pump, this);
    event_add(wake_event_, nullptr);
    const timeval tick = to_timeval(kTickMs);
    event_add(tick_event_, &tick);
    try_open();
    deliverer_->tick(lock_fd_, settings_.now_ms());
    schedule_pump(0);
    if (!should_stop()) event_base_dispatch(base_);
    // Others need not wait for the leases of a process that is gone.
    if (!database_.is_open()) return;
    database_.clear_error();
    streams_->close_all(settings_.now_ms());
    tell_others();
}

bool StoreWorker::should_stop() {
    if (!queue_.stop_flag().load()) return false;
    event_base_loopbreak(base_);
    return true;
}

void StoreWorker::on_wake(int fd, short, void* self) {
    auto* worker = static_cast<StoreWorker*>(self);
    if (worker->should_stop()) return;
    std::uint64_t count = 0;
    if (::read(fd, &count, sizeof count) < 0) return;
    worker->run_jobs();
}

void StoreWorker::on_notify(int fd, short, void* self) {
    auto* worker = static_cast<StoreWorker*>(self);
    if (worker->should_stop()) return;
    char events[4096];
    while (::read(fd, events, sizeof events) > 0) {}
    if (worker->others_have_committed()) worker->pump();
}

void StoreWorker::on_pump(int, short, void* self) {
    auto* worker = static_cast<StoreWorker*>(self);
    if (!worker->should_stop()) worker->pump();
}

void StoreWorker::on_tick(int, short, void* self) {
    auto* worker = static_cast<StoreWorker*>(self);
    if (worker->should_stop()) return;
    const std::int64_t now = worker->settings_.now_ms();
    worker->try_open();
    if (!worker->database_.is_open()) return;
    worker->streams_->keep_alive(now);
    worker->deliverer_->tick(worker->lock_fd_, now);
    worker->check_database("keeping watch");
    worker->maintain(now);
    worker->pump();
}

// ---------------------------------------------------------------- the file

void StoreWorker::try_open() {
    const std::int64_t now = settings_.now_ms();
    if (!database_.is_open()) {
        if (now < next_open_at_ && next_open_at_ - now <= kTickMs) return;
        if (!open_store(database_, settings_.path)) {
            close_store(database_.error());
            return;
        }
        data_version_ = 0;
        streams_->register_all(now);
        if (!last_failure_.empty()) notice("durable: store \"" + settings_.path + "\" is open again", false);
        last_failure_.clear();
    }
    if (lock_fd_ < 0) open_lock_file();
    if (!is_configured_) {
        is_configured_ = transact(database_, true, [&] { deliverer_->apply_configuration(now); });
        check_database("applying the configuration");
    }
}

void StoreWorker::open_lock_file() {
    const std::string path = settings_.path + ".lock";
    lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock_fd_ < 0) {
        notice("durable: lock file \"" + path + "\" cannot be opened, nothing is delivered to handlers", true);
        return;
    }
    watch_lock_file();
}

// Without the watch, other processes' commits are noticed within a second.
void StoreWorker::watch_lock_file() {
    notify_fd_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (notify_fd_ < 0) return;
    const std::string path = settings_.path + ".lock";
    if (inotify_add_watch(notify_fd_, path.c_str(), IN_MODIFY) < 0) return;
    notify_event_ = event_new(base_, notify_fd_, EV_READ | EV_PERSIST, on_notify, this);
    event_add(notify_event_, nullptr);
}

void StoreWorker::close_store(const std::string& why) {
    const bool is_busy = (database_.error_code() & 0xFF) == SQLITE_BUSY;
    database_.close();
    const std::int64_t delay = is_busy ? kBusyRetryMs : kTickMs;
    next_open_at_ = settings_.now_ms() + delay;
    if (is_busy) schedule_pump(delay);
    // The same failure is logged once, not each second.
    if (why == last_failure_) return;
    last_failure_ = why;
    notice("durable: store \"" + settings_.path + "\" cannot be used: " + why, !is_busy);
}

// Clears an error that nobody is waiting for the answer of.
void StoreWorker::check_database(const char* doing) {
    if (!database_.has_failed()) return;
    const std::string why = database_.error();
    if (database_.must_reopen()) {
        close_store(why);
    } else if (why != last_failure_) {
        last_failure_ = why;
        notice("durable: store \"" + settings_.path + "\" failed while " + doing + ": " + why, true);
    }
    database_.clear_error();
}

void StoreWorker::notice(std::string text, bool is_error) {
    queue_.complete({{Completion::Kind::notice, 0, 0, is_error, std::move(text)}});
}

void StoreWorker::maintain(std::int64_t now) {
    if (!deliverer_->is_active() || !database_.is_open()) return;
    bool has_more = true;
    for (int i = 0; i < kTrimsPerTick && has_more && !queue_.stop_flag().load(); ++i) {
        has_more = log_.needs_trim(settings_.retention, now) &&
                   transact(database_, false, [&] { log_.trim(settings_.retention, now); });
    }
    if (now >= next_sweep_at_ || next_sweep_at_ - now > kSweepMs) {
        has_more = false;
        transact(database_, false, [&] {
            has_more = sweep(database_, now);
            log_.drop_spared();
        });
        if (!has_more) next_sweep_at_ = now + kSweepMs;
    }
    check_database("sweeping");
}

// ------------------------------------------------------- news, and what waits

bool StoreWorker::others_have_committed() {
    if (!database_.is_open()) return false;
    std::int64_t version = data_version_;
    {
        Query query(database_, kDataVersion);
        if (query.next()) version = query.integer(0);
    }
    check_database("looking for news");
    const bool is_new = version != data_version_;
    data_version_ = version;
    return is_new;
}

void StoreWorker::tell_others() {
    if (lock_fd_ >= 0 && ::pwrite(lock_fd_, "\n", 1, 0) < 0) return;
    has_changed_ = false;
}

void StoreWorker::pump() {
    if (!database_.is_open()) {
        try_open();
        if (!database_.is_open()) return;
    }
    const std::int64_t now = settings_.now_ms();
    // The deliverer first: what it offers to live streams is then taken at once.
    const bool has_delivered = deliverer_->pump(now);
    check_database("delivering");
    bool has_more = false;
    if (database_.is_open()) has_more = streams_->pump(now);
    check_database("feeding live streams");
    if (has_delivered || has_changed_) tell_others();
    if (!database_.is_open()) return;
    if (has_more) {
        schedule_pump(0);
    } else if (const std::optional<std::int64_t> next = deliverer_->next_pump_at(now)) {
        // Not at once even if it is due: a pump that could not do it now is not to spin.
        schedule_pump(std::clamp<std::int64_t>(*next - now, 20, kTickMs));
    }
    check_database("delivering");
}

void StoreWorker::schedule_pump(std::int64_t delay_ms) {
    const timeval delay = to_timeval(delay_ms);
    event_add(pump_event_, &delay);
}

}  // namespace durable
