// SPDX-License-Identifier: BSD-2-Clause
// This worker's store thread as its event loop sees it: jobs go in, completions come back through an
// eventfd that is a connection of nginx's loop (E-2). Runs from the worker's start to its end, since
// deliveries need no request.
#pragma once

#include <optional>

#include "core/call_budgets.h"
#include "core/store_thread.h"
#include "ngx_module/event_settings.h"

namespace durable {

class EventStore;
class WorkerZone;

// Who waits for what the store says. Destroying it forgets the job and closes the stream.
class StoreClient {
public:
    virtual void on_store_answer(ngx_uint_t status, std::string&& body) noexcept = 0;
    // Of an open stream.
    virtual void on_store_frames(std::string&& /*frames*/) noexcept {}
    virtual void on_store_quit() noexcept {}

protected:
    StoreClient() = default;
    ~StoreClient();
    StoreClient(const StoreClient&) = delete;
    EventStore* store() const noexcept { return store_; }

private:
    friend class EventStore;
    EventStore* store_ = nullptr;  // nullptr: no job waits, no stream is open
    std::uint64_t job_ = 0;
};

// A call that was counted (E-24), until its answer says whether it was accepted.
struct BudgetCharge {
    BudgetName name;
    std::uint64_t accepted_ms;
};

class EventStore {
public:
    // This process's; nullptr where no store is configured, or it could not be started.
    static EventStore* of(const MainSettings& settings) noexcept { return settings.event_store; }
    // Called in init_process and exit_process.
    static void start(MainSettings& settings) noexcept;
    static void leave(MainSettings& settings) noexcept;

    EventStore(MainSettings& settings, StoreSettings store_settings);
    ~EventStore();
    EventStore(const EventStore&) = delete;

    // Counts a call of the account. accepted: `charge` is to go with the job.
    [[nodiscard]] BudgetOutcome charge(std::string_view account, CallBudget kind, std::optional<BudgetCharge>& charge);

    // The client hears of the answer, unless it is gone by then. It has no other job.
    void submit(Job job, StoreClient& client, const std::optional<BudgetCharge>& charge = std::nullopt);
    // The same for a stream, of which the client hears until it is gone, unless the answer is a refusal.
    void open_stream(OpenStreamJob job, StoreClient& client);
    // The stream's last frames are out.
    void ask_for_frames(StoreClient& client);
    // A failure is logged.
    void emit(EmitJob job);

    // The worker was asked to quit: streams are to end.
    bool is_quitting() const noexcept { return is_quitting_; }

private:
    friend class StoreClient;
    struct Pending {
        StoreClient* client = nullptr;  // nullptr: it is gone, or there was none
        std::optional<BudgetCharge> charge;
        bool is_stream = false;
        bool is_open = false;  // a stream whose answer has come
        bool is_emit = false;
    };

    static void on_readable(ngx_event_t* event) noexcept;
    static void on_hold(ngx_event_t* event) noexcept;
    static void on_sweep(ngx_event_t* event) noexcept;
    [[nodiscard]] bool open() noexcept;
    void add(Job job, Pending pending);
    void forget(StoreClient& client) noexcept;
    void on_completion(Completion& completion);
    void on_answer(Completion& completion);
    void refund(const BudgetCharge& charge);
    void on_quit() noexcept;
    void hold_worker() noexcept;

    WorkerZone* budget_zone() noexcept;

    MainSettings& settings_;
    StoreThread thread_;
    ngx_connection_t* connection_ = nullptr;
    ngx_event_t hold_timer_{};   // keeps a worker that is to quit while answers are due
    ngx_event_t sweep_timer_{};  // frees idle budgets
    std::unordered_map<std::uint64_t, Pending> pending_;
    std::uint64_t last_job_ = 0;
    std::size_t due_answers_ = 0;
    bool is_quitting_ = false;
};

}  // namespace durable
