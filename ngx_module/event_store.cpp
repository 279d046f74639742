// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/event_store.h"

#include <sys/time.h>

#include "ngx_module/log.h"
#include "ngx_module/publishing.h"
#include "ngx_module/watched_descriptor.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

constexpr ngx_msec_t kHold = 60 * 1000;
constexpr ngx_msec_t kSweep = 1000;
constexpr std::uint32_t kBucketsPerSweep = 64;

// On the store thread, so not nginx's cached time.
std::int64_t wall_clock_ms() {
    timeval now{};
    gettimeofday(&now, nullptr);
    return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_usec / 1000;
}

StoreSettings store_settings_of(const MainSettings& settings) {
    StoreSettings store;
    store.path = view(settings.store->path);
    store.retention.age_ms = settings.store->retention_ms;
    store.retention.events = settings.store->events;
    const auto* handlers = static_cast<HandlerOptions*>(settings.handlers.elts);
    for (ngx_uint_t i = 0; i < settings.handlers.nelts; ++i) {
        HandlerSettings handler;
        handler.name = view(handlers[i].name);
        handler.url = view(handlers[i].url);
        handler.secret = view(handlers[i].secret);
        handler.timeout_ms = static_cast<std::int64_t>(handlers[i].timeout);
        store.handlers.push_back(std::move(handler));
    }
    store.now_ms = wall_clock_ms;
    return store;
}

}  // namespace

// ---- StoreClient ----

StoreClient::~StoreClient() {
    if (store_ != nullptr) store_->forget(*this);
}

// ---- life ----

void EventStore::start(MainSettings& settings) noexcept {
    if (settings.store == nullptr) return;
    guarded(ngx_cycle->log, "starting the event store", [&] {
        auto store = std::make_unique<EventStore>(settings, store_settings_of(settings));
        if (store->open()) settings.event_store = store.release();
        return NGX_OK;
    });
}

void EventStore::leave(MainSettings& settings) noexcept {
    delete settings.event_store;
    settings.event_store = nullptr;
}

EventStore::EventStore(MainSettings& settings, StoreSettings store_settings)
    : settings_(settings), thread_(std::move(store_settings)) {
    hold_timer_.data = sweep_timer_.data = this;
    hold_timer_.log = sweep_timer_.log = ngx_cycle->log;
    hold_timer_.handler = on_hold;
    sweep_timer_.handler = on_sweep;
    sweep_timer_.cancelable = 1;
}

EventStore::~EventStore() {
    for (auto& [id, pending] : pending_) {
        if (pending.client != nullptr) pending.client->store_ = nullptr;
    }
    if (hold_timer_.timer_set) ngx_del_timer(&hold_timer_);
    if (sweep_timer_.timer_set) ngx_del_timer(&sweep_timer_);
    if (connection_ != nullptr) ngx_close_connection(connection_);
    thread_.stop();
}

// nginx closes a connection's descriptor, so it has one of its own.
bool EventStore::open() noexcept {
    ngx_log_t* log = ngx_cycle->log;
    if (!thread_.start()) {
        ngx_log_error(NGX_LOG_CRIT, log, 0, "durable: the store thread cannot be started");
        return false;
    }
    const int fd = fcntl(thread_.completion_fd(), F_DUPFD_CLOEXEC, 0);
    if (fd == -1) {
        ngx_log_error(NGX_LOG_CRIT, log, ngx_errno, "durable: the store thread's eventfd cannot be watched");
        return false;
    }
    connection_ = watch_descriptor(fd, on_readable, this, log);
    return connection_ != nullptr;
}

// ---- jobs ----

void EventStore::add(Job job, Pending pending) {
    const std::uint64_t id = ++last_job_;
    pending_.emplace(id, pending);
    if (pending.client != nullptr) {
        pending.client->store_ = this;
        pending.client->job_ = id;
    }
    ++due_answers_;
    hold_worker();
    thread_.submit(id, std::move(job));
}

void EventStore::submit(Job job, StoreClient& client, const std::optional<BudgetCharge>& charge) {
    Pending pending;
    pending.client = &client;
    pending.charge = charge;
    add(std::move(job), pending);
}

void EventStore::open_stream(OpenStreamJob job, StoreClient& client) {
    Pending pending;
    pending.client = &client;
    pending.is_stream = true;
    add(std::move(job), pending);
}

void EventStore::emit(EmitJob job) {
    Pending pending;
    pending.is_emit = true;
    add(std::move(job), pending);
}

void EventStore::ask_for_frames(StoreClient& client) {
    if (client.store_ != nullptr) thread_.submit(++last_job_, StreamReadyJob{client.job_});
}

void EventStore::forget(StoreClient& client) noexcept {
    client.store_ = nullptr;
    const auto found = pending_.find(client.job_);
    if (found == pending_.end()) return;
    Pending& pending = found->second;
    pending.client = nullptr;
    if (!pending.is_stream) return;  // its answer settles what it was charged
    guarded(ngx_cycle->log, "closing a live stream", [&] {
        thread_.submit(++last_job_, CloseStreamJob{client.job_});
        return NGX_OK;
    });
    if (pending.is_open) pending_.erase(found);
}

// ---- completions ----

void EventStore::on_readable(ngx_event_t* event) noexcept {
    auto* c = static_cast<ngx_connection_t*>(event->data);
    auto& store = *static_cast<EventStore*>(c->data);
    if (c->close) {
        c->close = 0;
        c->idle = 0;
        // Of worker_shutdown_timeout: nothing is waited for any more.
        if (c->error && store.hold_timer_.timer_set) ngx_del_timer(&store.hold_timer_);
        return store.on_quit();
    }
    guarded(ngx_cycle->log, "an answer of the store", [&store] {
        for (Completion& completion : store.thread_.take_completions()) store.on_completion(completion);
        return NGX_OK;
    });
}

void EventStore::on_completion(Completion& completion) {
    if (completion.kind == Completion::Kind::notice) {
        ngx_str_t line = to_ngx(completion.body);
        const ngx_uint_t level = completion.is_error ? NGX_LOG_ERR : NGX_LOG_NOTICE;
        ngx_log_error(level, ngx_cycle->log, 0, "%V", &line);
        return;
    }
    if (completion.kind == Completion::Kind::answer) return on_answer(completion);
    const auto found = pending_.find(completion.id);
    if (found == pending_.end() || found->second.client == nullptr) return;
    found->second.client->on_store_frames(std::move(completion.body));
}

void EventStore::on_answer(Completion& completion) {
    const auto found = pending_.find(completion.id);
    if (found == pending_.end()) return;
    if (--due_answers_ == 0 && hold_timer_.timer_set) ngx_del_timer(&hold_timer_);
    const Pending pending = found->second;
    const bool is_accepted = completion.status == NGX_HTTP_OK;
    if (pending.is_stream && is_accepted && pending.client != nullptr) {
        found->second.is_open = true;
    } else {
        pending_.erase(found);
        if (pending.client != nullptr) pending.client->store_ = nullptr;
    }
    if (!is_accepted && pending.charge) refund(*pending.charge);
    if (!is_accepted && pending.is_emit) log_line(NGX_LOG_ERR, ngx_cycle->log, "event not emitted: " + completion.body);
    if (pending.client == nullptr) return;
    pending.client->on_store_answer(static_cast<ngx_uint_t>(completion.status), std::move(completion.body));
}

// ---- budgets ----

// nullptr: the zone is full.
WorkerZone* EventStore::budget_zone() noexcept {
    Worker* worker = Worker::of(settings_);
    if (worker == nullptr) return nullptr;
    WorkerZone& zone = worker->zone(settings_.store->zone());
    return zone.claim() ? &zone : nullptr;
}

BudgetOutcome EventStore::charge(std::string_view account, CallBudget kind, std::optional<BudgetCharge>& charge) {
    WorkerZone* zone = budget_zone();
    if (zone == nullptr) return BudgetOutcome::no_memory;
    charge = BudgetCharge{BudgetName(account, kind), unix_ms()};
    if (!sweep_timer_.timer_set) ngx_add_timer(&sweep_timer_, kSweep);
    ZoneAccess access(*zone);
    return charge_budget(access, charge->name, charge->accepted_ms);
}

void EventStore::refund(const BudgetCharge& charge) {
    WorkerZone* zone = budget_zone();
    if (zone == nullptr) return;
    ZoneAccess access(*zone);
    refund_budget(access, charge.name, charge.accepted_ms);
}

void EventStore::on_sweep(ngx_event_t* event) noexcept {
    auto& store = *static_cast<EventStore*>(event->data);
    WorkerZone* zone = store.budget_zone();
    if (zone == nullptr) return;
    ZoneAccess access(*zone);
    sweep_budgets(access, kBucketsPerSweep, unix_ms());
    if ((*access).root().budgets.count() != 0) ngx_add_timer(event, kSweep);
}

// ---- the worker's end ----

// nginx lets a worker quit once no timer is left, and a parked request has none.
void EventStore::hold_worker() noexcept {
    if (!hold_timer_.timer_set) ngx_add_timer(&hold_timer_, kHold);
}

void EventStore::on_hold(ngx_event_t* event) noexcept {
    auto& store = *static_cast<EventStore*>(event->data);
    if (store.due_answers_ != 0) store.hold_worker();
}

void EventStore::on_quit() noexcept {
    is_quitting_ = true;
    std::vector<std::uint64_t> streams;
    guarded(ngx_cycle->log, "ending live streams", [&] {
        for (const auto& [id, pending] : pending_) {
            if (pending.is_stream) streams.push_back(id);
        }
        return NGX_OK;
    });
    for (const std::uint64_t id : streams) {
        const auto found = pending_.find(id);
        if (found != pending_.end() && found->second.client != nullptr) found->second.client->on_store_quit();
    }
}

}  // namespace durable
