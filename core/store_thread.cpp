// SPDX-License-Identifier: BSD-2-Clause
#include "core/store_thread.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <ctime>
#include <mutex>

#include "core/event_documents.h"
#include "core/store_worker.h"

namespace durable {
namespace {

constexpr long kStopNanoseconds = 900000000;

void ring(int fd) noexcept {
    const std::uint64_t one = 1;
    // Full means that it already rings.
    if (fd >= 0 && ::write(fd, &one, sizeof one) < 0) return;
}

}  // namespace

// Lives until both the owner and the thread have let go of it.
struct StoreThread::Shared final : StoreQueue {
    explicit Shared(StoreSettings given) : settings(std::move(given)) {}
    ~Shared() {
        if (wake >= 0) ::close(wake);
        if (completed >= 0) ::close(completed);
    }

    int wake_fd() const noexcept override { return wake; }
    const std::atomic<bool>& stop_flag() const noexcept override { return stop; }

    std::vector<QueuedJob> take_jobs() override {
        const std::lock_guard guard(mutex);
        return std::exchange(jobs, {});
    }

    void complete(std::vector<Completion> more) override {
        if (more.empty()) return;
        {
            const std::lock_guard guard(mutex);
            for (Completion& one : more) completions.push_back(std::move(one));
        }
        ring(completed);
    }

    // Nobody serves jobs any more: those that wait and those to come are answered here.
    void die() {
        std::vector<QueuedJob> waiting;
        {
            const std::lock_guard guard(mutex);
            is_dead = true;
            waiting = std::exchange(jobs, {});
        }
        for (const QueuedJob& job : waiting) answer_dead(job.id, job.job);
    }

    void answer_dead(std::uint64_t id, const Job& job) {
        if (std::holds_alternative<StreamReadyJob>(job) || std::holds_alternative<CloseStreamJob>(job)) return;
        const Refusal refusal{ErrorCode::store_failed, "the store thread is not running"};
        complete({{Completion::Kind::answer, id, error_info(refusal.code).status, false, error_body(refusal)}});
    }

    StoreSettings settings;
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::vector<QueuedJob> jobs;
    std::vector<Completion> completions;
    bool is_dead = true;
    bool is_started = false;
    pthread_t thread{};
    int wake = -1;
    int completed = -1;
};

namespace {

void* thread_main(void* given) {
    const std::unique_ptr<std::shared_ptr<StoreThread::Shared>> holder(
        static_cast<std::shared_ptr<StoreThread::Shared>*>(given));
    StoreThread::Shared& shared = **holder;
    // Nothing may leave a thread of nginx's process; what can be thrown here is an exhausted heap.
    try {
        StoreWorker(shared.settings, shared).run();
    } catch (const std::exception& error) {
        shared.complete(
            {{Completion::Kind::notice, 0, 0, true, std::string("durable: store thread ended: ") + error.what()}});
    }
    if (!shared.stop.load()) shared.die();
    return nullptr;
}

// Every signal but those that a fault raises in the thread itself is the process's own business.
int create_blocked(pthread_t& thread, void* argument) {
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    for (const int fault : {SIGILL, SIGFPE, SIGSEGV, SIGBUS}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int result = pthread_create(&thread, nullptr, thread_main, argument);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return result;
}

// A thread that hangs in the disk cannot be joined; its code must then stay mapped until the process is gone.
void keep_code_mapped() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&thread_main), &info) == 0 || info.dli_fname == nullptr) return;
    if (dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) return;
}

}  // namespace

StoreThread::StoreThread(StoreSettings settings) : shared_(std::make_shared<Shared>(std::move(settings))) {}

StoreThread::~StoreThread() { stop(); }

bool StoreThread::start() {
    Shared& shared = *shared_;
    shared.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    shared.completed = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (shared.wake < 0 || shared.completed < 0) return false;
    shared.is_dead = false;
    auto holder = std::make_unique<std::shared_ptr<Shared>>(shared_);
    shared.is_started = create_blocked(shared.thread, holder.get()) == 0;
    if (shared.is_started) {
        holder.release();  // the thread's own
    } else {
        shared.is_dead = true;
    }
    return shared.is_started;
}

void StoreThread::stop() {
    Shared& shared = *shared_;
    if (!shared.is_started) return;
    shared.is_started = false;
    shared.stop.store(true);
    ring(shared.wake);
    timespec deadline{};
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += kStopNanoseconds;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(shared.thread, nullptr, &deadline) == 0) return;
    keep_code_mapped();
    pthread_detach(shared.thread);
}

void StoreThread::submit(std::uint64_t id, Job job) {
    {
        const std::lock_guard guard(shared_->mutex);
        if (!shared_->is_dead) {
            shared_->jobs.push_back({id, std::move(job)});
            ring(shared_->wake);
            return;
        }
    }
    shared_->answer_dead(id, job);
}

int StoreThread::completion_fd() const noexcept { return shared_->completed; }

std::vector<Completion> StoreThread::take_completions() {
    std::uint64_t count = 0;
    if (shared_->completed >= 0 && ::read(shared_->completed, &count, sizeof count) < 0) count = 0;
    const std::lock_guard guard(shared_->mutex);
    return std::exchange(shared_->completions, {});
}

}  // namespace durable
