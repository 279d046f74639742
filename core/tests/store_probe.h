// SPDX-License-Identifier: BSD-2-Clause
// A store thread on a file of its own, with blocking calls, for tests.
#pragma once

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/store_thread.h"

namespace durable_test {

// A new folder below /tmp that is removed at the end, with what SQLite leaves in it.
class ScratchFolder {
public:
    ScratchFolder() {
        char name[] = "/tmp/durable-test-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~ScratchFolder() {
        for (const char* suffix : {"", "-wal", "-shm", "-journal", ".lock"}) ::unlink((store() + suffix).c_str());
        ::rmdir(path_.c_str());
    }
    const std::string& path() const { return path_; }
    std::string store() const { return path_ + "/store.db"; }

private:
    std::string path_;
};

class StoreProbe {
public:
    explicit StoreProbe(const std::string& path, std::vector<durable::HandlerSettings> handlers = {},
                        durable::Retention retention = {})
        : thread_(settings(path, std::move(handlers), retention)) {
        is_started_ = thread_.start();
    }

    static std::int64_t real_now() {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    }

    // Moves this store's clock.
    void advance(std::int64_t ms) { *offset_ += ms; }

    std::uint64_t submit(durable::Job job) {
        thread_.submit(++last_id_, std::move(job));
        return last_id_;
    }

    durable::Completion call(durable::Job job) { return answer_of(submit(std::move(job))); }

    durable::Completion answer_of(std::uint64_t id, int seconds = 20) {
        for (int i = 0; i < seconds * 100 && answers_.count(id) == 0; ++i) collect(10);
        const auto found = answers_.find(id);
        return found != answers_.end() ? found->second : durable::Completion{};
    }

    // What a stream got so far; waits until it holds `wanted`.
    std::string stream_text(std::uint64_t stream, const std::string& wanted, int seconds = 10) {
        for (int i = 0; i < seconds * 100 && streams_[stream].find(wanted) == std::string::npos; ++i) collect(10);
        return streams_[stream];
    }

    void collect(int timeout_ms) {
        pollfd ready{thread_.completion_fd(), POLLIN, 0};
        if (::poll(&ready, 1, timeout_ms) <= 0) return;
        for (durable::Completion& one : thread_.take_completions()) {
            switch (one.kind) {
                case durable::Completion::Kind::answer: answers_[one.id] = std::move(one); break;
                case durable::Completion::Kind::notice: notices_ += one.body + '\n'; break;
                case durable::Completion::Kind::stream_data:
                    streams_[one.id] += one.body;
                    if (auto_ready_) thread_.submit(++last_id_, durable::StreamReadyJob{one.id});
                    break;
            }
        }
    }

    void set_auto_ready(bool is_on) { auto_ready_ = is_on; }
    const std::string& notices() const { return notices_; }
    durable::StoreThread& thread() { return thread_; }
    bool is_started() const { return is_started_; }

    durable::Completion subscribe(const std::string& body, const std::string& account = "alice",
                                  std::optional<std::string> app = std::nullopt, durable::Quotas quotas = {}) {
        return call(durable::SubscribeJob{{account, app}, quotas, body});
    }
    durable::Completion publish(const std::string& body) { return call(durable::PublishJob{body}); }
    std::uint64_t open_stream(std::optional<std::string> subject = std::nullopt, const std::string& account = "alice",
                              std::optional<std::string> app = std::nullopt,
                              std::optional<std::string> last_id = std::nullopt) {
        const std::uint64_t id = submit(durable::OpenStreamJob{{account, app}, subject, last_id});
        answer_of(id);
        return id;
    }

    // The text of a member of a JSON object, as it is written: for answers of one level.
    static std::string member(const std::string& json, const std::string& name) {
        const std::size_t at = json.find('"' + name + "\":");
        if (at == std::string::npos) return "missing";
        std::size_t start = at + name.size() + 3;
        if (json[start] == '"') return json.substr(start + 1, json.find('"', start + 1) - start - 1);
        return json.substr(start, json.find_first_of(",}", start) - start);
    }

private:
    durable::StoreSettings settings(const std::string& path, std::vector<durable::HandlerSettings> handlers,
                                    durable::Retention retention) {
        durable::StoreSettings made;
        made.path = path;
        made.handlers = std::move(handlers);
        made.retention = retention;
        made.now_ms = [offset = offset_] { return real_now() + *offset; };
        return made;
    }

    std::shared_ptr<std::atomic<std::int64_t>> offset_ = std::make_shared<std::atomic<std::int64_t>>(0);
    durable::StoreThread thread_;
    bool is_started_ = false;
    bool auto_ready_ = true;
    std::uint64_t last_id_ = 0;
    std::map<std::uint64_t, durable::Completion> answers_;
    std::map<std::uint64_t, std::string> streams_;
    std::string notices_;
};

}  // namespace durable_test
