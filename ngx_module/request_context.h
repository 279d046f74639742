// SPDX-License-Identifier: BSD-2-Clause
// What the module knows of a main request that a `durable_object` binds: its object and its event.
// Lives in the request's pool. An internal redirect clears nginx's contexts, so it is found through
// its pool cleanup then.
#pragma once

#include "core/errors.h"
#include "core/event_token.h"
#include "ngx_module/settings.h"

namespace durable {

class EventStream;
class Gate;
class SubscribedStream;
class WorkerZone;

class RequestContext {
public:
    // nullptr where the request has none.
    static RequestContext* find(ngx_http_request_t* r) noexcept;
    // Makes one for a main request; nullptr when out of memory.
    static RequestContext* create(ngx_http_request_t* r) noexcept;

    explicit RequestContext(ngx_http_request_t* r) noexcept : request(r) {}
    ~RequestContext();
    RequestContext(const RequestContext&) = delete;

    // Gives the request an event, which this worker then finds by its token. `settings` are those of
    // the location that binds it. The zone's slot is claimed.
    void begin_event(WorkerZone& worker_zone, std::string_view object_key, LocationSettings& location);
    // Makes the request part of the section whose event `section_token` is (X-14a).
    void join_section(WorkerZone& worker_zone, std::string_view object_key, LocationSettings& location,
                      const EventToken& section_token, EventKind section_kind) noexcept;
    // Ends it, by whatever way the request ends; idempotent (C-14, S-22).
    void end_event() noexcept;
    // Its record has been made: it goes at the event's time limit.
    void set_bound() noexcept;
    // Whether its time limit is over. What its sections have waited in the line is added to that first.
    bool is_overdue() noexcept;
    bool has_event() const noexcept { return zone != nullptr; }
    // The whole-request section that it holds, nullptr if none.
    LineEntryRecord* section() const noexcept;
    std::string_view token_text() const noexcept { return {token_text_, kEventTokenSize}; }

    ngx_http_request_t* const request;
    WorkerZone* zone = nullptr;         // nullptr: no event runs
    LocationSettings* settings = nullptr;  // of the location that bound it; the cycle's
    std::string_view object_key;        // in the request's pool
    EventToken token;
    EventKind kind = EventKind::fetch;
    enum class Passed : std::uint8_t { nothing, gate, line } passed = Passed::nothing;
    std::string_view offered_token;     // the client's own `Durable-Event`
    Gate* gate = nullptr;               // where it waits or has waited; holds a whole-request section
    bool is_inner = false;              // a section's own request: the event is the section's (X-14a)
    bool is_bound = false;              // the event has a record in the zone
    ngx_msec_t deadline = 0;            // in ngx_current_msec; the event's time limit
    EventStream* stream = nullptr;      // the event stream that it answers with
    SubscribedStream* subscribed = nullptr;

private:
    static void on_deadline(ngx_event_t* event) noexcept;
    void forget_event() noexcept;

    ngx_event_t timer_{};
    char token_text_[kEventTokenSize] = {};
};

// What runs in this worker, by token.
template <class Runner>
class RunningByToken {
public:
    void add(Runner& runner) { runners_[key(runner.token)] = &runner; }
    void remove(const Runner& runner) noexcept { runners_.erase(key(runner.token)); }
    Runner* find(const EventToken& token) const noexcept {
        const auto found = runners_.find(key(token));
        return found == runners_.end() || !(found->second->token == token) ? nullptr : found->second;
    }
    std::size_t count() const noexcept { return runners_.size(); }

private:
    // Half of the random bits are enough to find it.
    static std::uint64_t key(const EventToken& token) noexcept {
        std::uint64_t bits;
        std::memcpy(&bits, token.random, sizeof bits);
        return bits;
    }
    std::unordered_map<std::uint64_t, Runner*> runners_;
};
using RunningEvents = RunningByToken<RequestContext>;

}  // namespace durable
