// SPDX-License-Identifier: BSD-2-Clause
// The store thread of one worker: the only code that touches the SQLite file and calls handlers (E-1, E-2).
//
// How the event loop uses it:
//   1. After fork: create it and start(). Poll completion_fd() for reading.
//   2. submit(id, job) for each call; it copies nothing back and never blocks on the store.
//   3. When completion_fd() is readable: take_completions(), and act on each by its kind:
//        answer       the job `id` is done: HTTP `status` and the whole JSON `body`. Exactly one for every job but
//                     StreamReadyJob and CloseStreamJob, which have none. What the job wrote is on disk.
//        stream_data  bytes for the event stream that the OpenStreamJob `id` opened: whole server-sent events, to be
//                     sent as they are. After it, nothing comes for this stream until a StreamReadyJob says that the
//                     bytes are out, so a slow client costs one batch of memory. May precede nothing: the stream's own
//                     answer always comes first. May still come after a CloseStreamJob was submitted: ignore it.
//        notice       `body` is a line for the log, `status` 0; `is_error` says at which level.
//   4. At exit: stop(), which returns within a second whatever is pending, then destroy it.
//
// Everything public is called by the event loop's thread only. Budgets (E-24), CORS and identity are the caller's
// business: a job is submitted once they passed; an accepted call is one whose answer has status 200.
// Workers need not wake each other: store threads of all processes on one file notice each other's commits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/event_log.h"
#include "core/store_types.h"

namespace durable {

// POST subscribe; 200 is the subscription object.
struct SubscribeJob {
    Caller caller;
    Quotas quotas;
    std::string body;
};
// POST unsubscribe
struct UnsubscribeJob {
    Caller caller;
    std::string body;
};
// GET subscriptions; `query` is the raw query string, without `?`.
struct ListJob {
    Caller caller;
    std::string query;
};
// GET fetch; `query` as above.
struct FetchJob {
    Caller caller;
    std::string query;
};
// POST ack
struct AckJob {
    Caller caller;
    std::string body;
};
// POST events below durable_api (E-26).
struct PublishJob {
    std::string body;
};
// durable_emit (E-27): `subject` is `fs:PATH` or `topic:NAME`. An account makes the event that account's own. `from`
// is the path a MOVE came from, or empty.
struct EmitJob {
    std::string subject;
    std::string op;
    std::string from;
    std::optional<std::string> account;
};
// POST events/suspend, POST events/resume (E-37).
struct SuspendJob {
    std::string body;
};
struct ResumeJob {
    std::string body;
};
// GET stream (E-30). With a subject: a session subscription, which `last_event_id` resumes. Its answer is 200 with an
// empty body, to be followed by stream_data, or a refusal to be sent instead of the stream.
struct OpenStreamJob {
    Caller caller;
    std::optional<std::string> subject;
    std::optional<std::string> last_event_id;
};
struct StreamReadyJob {
    std::uint64_t stream = 0;
};
struct CloseStreamJob {
    std::uint64_t stream = 0;
};

using Job = std::variant<SubscribeJob, UnsubscribeJob, ListJob, FetchJob, AckJob, PublishJob, EmitJob, SuspendJob,
                         ResumeJob, OpenStreamJob, StreamReadyJob, CloseStreamJob>;

struct Completion {
    enum class Kind : std::uint8_t { answer, stream_data, notice };
    Kind kind = Kind::answer;
    std::uint64_t id = 0;
    int status = 0;
    bool is_error = false;
    std::string body;
};

struct StoreSettings {
    std::string path;
    Retention retention;
    std::vector<HandlerSettings> handlers;
    // Calls that run at once for one handler, so that a dead one holds up no other.
    std::int64_t calls_per_handler = 16;
    // Wall clock in unix milliseconds; called on the store thread.
    std::function<std::int64_t()> now_ms;
};

class StoreThread {
public:
    explicit StoreThread(StoreSettings settings);
    ~StoreThread();  // stops it
    StoreThread(const StoreThread&) = delete;
    StoreThread& operator=(const StoreThread&) = delete;

    // False: no thread or descriptor was to be had; every job is then answered with store_failed.
    [[nodiscard]] bool start();

    // At most a second. Jobs that were not answered yet are dropped.
    void stop();

    // `id` is the caller's own, one per job; an OpenStreamJob's names its stream until that is closed.
    void submit(std::uint64_t id, Job job);

    // Readable when completions are there; -1 before start().
    int completion_fd() const noexcept;
    [[nodiscard]] std::vector<Completion> take_completions();

    struct Shared;

private:
    std::shared_ptr<Shared> shared_;
};

}  // namespace durable
