// SPDX-License-Identifier: BSD-2-Clause
// What runs on the store thread: its libevent loop, the jobs, the commits. Made, run and destroyed on that thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/database.h"
#include "core/deliverer.h"
#include "core/delivery.h"
#include "core/event_log.h"
#include "core/live_streams.h"
#include "core/store_thread.h"
#include "core/subscription_store.h"

struct event;

namespace durable {

struct QueuedJob {
    std::uint64_t id = 0;
    Job job;
};

// The two ends of the queue between the event loop and the thread.
class StoreQueue {
public:
    virtual int wake_fd() const noexcept = 0;  // readable: there are jobs, or it is time to stop
    virtual std::vector<QueuedJob> take_jobs() = 0;
    virtual void complete(std::vector<Completion> completions) = 0;
    virtual const std::atomic<bool>& stop_flag() const noexcept = 0;

protected:
    ~StoreQueue() = default;
};

class StoreWorker {
public:
    StoreWorker(const StoreSettings& settings, StoreQueue& queue);
    ~StoreWorker();
    StoreWorker(const StoreWorker&) = delete;
    StoreWorker& operator=(const StoreWorker&) = delete;

    // Until the stop flag is set.
    void run();

private:
    using Answers = std::vector<Completion>;

    static void on_wake(int, short, void* self);
    static void on_notify(int, short, void* self);
    static void on_tick(int, short, void* self);
    static void on_pump(int, short, void* self);
    bool should_stop();

    void try_open();
    void open_lock_file();
    void watch_lock_file();
    void close_store(const std::string& why);
    void check_database(const char* doing);
    void notice(std::string text, bool is_error);

    void run_jobs();
    void run_batch(QueuedJob* first, QueuedJob* last);
    [[nodiscard]] bool run_together(QueuedJob* first, QueuedJob* last, Answers& answers);
    void answer_failure(const QueuedJob& job, const std::string& why, Answers& answers);
    void execute(QueuedJob& job, Answers& answers);
    void execute_stream_job(QueuedJob& job);

    [[nodiscard]] Completion subscribe(const SubscribeJob& job);
    [[nodiscard]] Completion unsubscribe(const UnsubscribeJob& job);
    [[nodiscard]] Completion list(const ListJob& job);
    [[nodiscard]] Completion fetch(const FetchJob& job);
    [[nodiscard]] Completion acknowledge(const AckJob& job);
    [[nodiscard]] Completion publish(const PublishJob& job);
    [[nodiscard]] Completion emit(const EmitJob& job);
    [[nodiscard]] Completion suspend(const SuspendJob& job);
    [[nodiscard]] Completion resume(const ResumeJob& job);
    [[nodiscard]] Completion publish_event(LoggedEvent& event);

    void tell_others();
    bool others_have_committed();
    void pump();
    void schedule_pump(std::int64_t delay_ms);
    void maintain(std::int64_t now);

    const StoreSettings& settings_;
    StoreQueue& queue_;
    event_base* base_ = nullptr;
    event* wake_event_ = nullptr;
    event* notify_event_ = nullptr;
    event* tick_event_ = nullptr;
    event* pump_event_ = nullptr;
    int lock_fd_ = -1;
    int notify_fd_ = -1;
    std::int64_t data_version_ = 0;
    std::int64_t next_open_at_ = 0;
    std::int64_t next_sweep_at_ = 0;
    std::string last_failure_;
    bool is_configured_ = false;
    bool has_changed_ = false;  // this round wrote something that others may wait for
    std::deque<QueuedJob> jobs_;

    Database database_;
    SubscriptionStore subscriptions_;
    EventLog log_;
    Delivery delivery_;
    std::unique_ptr<LiveStreams> streams_;
    std::unique_ptr<Deliverer> deliverer_;
};

}  // namespace durable
