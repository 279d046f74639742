// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/host_call.h"

#include <poll.h>

#include "core/event.h"
#include "core/line.h"
#include "core/object.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/request_body.h"
#include "ngx_module/response.h"

namespace durable {

namespace {

// Another worker answers in its event loop; one that does not for so long hangs.
constexpr ngx_msec_t kCommandTimeout = 60 * 1000;
// Of a call's wait for a section, where its location has no `durable_object`.
constexpr ngx_uint_t kDefaultQueue = 1000;
constexpr ngx_msec_t kDefaultWait = 60 * 1000;

void on_cleanup(void* data) noexcept { static_cast<HostCall*>(data)->~HostCall(); }

}  // namespace

HostCall* HostCall::create(ngx_http_request_t* r, const HostCallRow& row, WorkerZone& zone) {
    ngx_pool_cleanup_t* cleanup = ngx_pool_cleanup_add(r->pool, sizeof(HostCall));
    if (cleanup == nullptr) return nullptr;
    auto* call = new (cleanup->data) HostCall(r, row, zone);
    cleanup->handler = on_cleanup;
    return call;
}

HostCall* HostCall::of(ngx_http_request_t* r) noexcept {
    for (ngx_pool_cleanup_t* cleanup = r->pool->cleanup; cleanup != nullptr; cleanup = cleanup->next) {
        if (cleanup->handler == on_cleanup) return static_cast<HostCall*>(cleanup->data);
    }
    return nullptr;
}

HostCall::HostCall(ngx_http_request_t* r, const HostCallRow& row, WorkerZone& worker_zone) noexcept
    : request(r), zone(worker_zone), row_(row), work_(row.work) {
    timer_.data = this;
    timer_.handler = on_timeout;
    timer_.log = r->connection->log;
}

HostCall::~HostCall() {
    if (timer_.timer_set) ngx_del_timer(&timer_);
}

bool HostCall::read_body(std::string& storage, std::string_view& text) {
    if (body_text(request, storage, text)) return true;
    finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    return false;
}

// ---- answering ----

void HostCall::answer(ngx_uint_t status, std::string_view json) { finish(send_json(request, status, json)); }

void HostCall::answer_nothing() { finish(send_json(request, NGX_HTTP_NO_CONTENT, {})); }

void HostCall::refuse(ErrorCode error, std::string_view detail) { finish(send_error(request, error, detail)); }

void HostCall::finish(ngx_int_t rc) noexcept {
    is_answered_ = true;
    rc_ = rc;
}

bool HostCall::end_if_answered() noexcept {
    if (depth_ != 0 || !is_answered_) return false;
    if (timer_.timer_set) ngx_del_timer(&timer_);
    ngx_http_finalize_request(request, rc_);
    return true;
}

// ---- later ----

void HostCall::park() noexcept {
    ngx_connection_t* c = request->connection;
    request->read_event_handler = ngx_http_test_reading;
    request->write_event_handler = ngx_http_request_empty_handler;
    // It may have left while the body was read; no further event would tell.
    if (c->read->pending_eof) {
        ngx_post_event(c->read, &ngx_posted_events);
    }
}

bool HostCall::is_client_gone() const noexcept {
    const ngx_connection_t* c = request->connection;
    if (c->error || c->read->pending_eof) return true;
    // A peek would not see an end behind bytes that nobody has read yet.
    pollfd state{c->fd, POLLRDHUP, 0};
    return poll(&state, 1, 0) == 1 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void HostCall::wait_at_most(ngx_msec_t time) noexcept { ngx_add_timer(&timer_, time); }

void HostCall::on_timeout(ngx_event_t* event) noexcept {
    HostCall& call = *static_cast<HostCall*>(event->data);
    call.resume([&call] {
        if (!call.is_in_line()) return call.finish(NGX_HTTP_GATEWAY_TIME_OUT);
        call.leave_line();
        call.refuse(ErrorCode::exclusive_wait_timeout);
    });
}

void HostCall::start() noexcept {
    run_guarded([this] {
        if (row_.max_body != 0 && body_size(request) > row_.max_body) return refuse(row_.too_large);
        run();
    });
    end_if_answered();
}

void HostCall::run() {
    work_(*this);
    const Obstacle obstacle = std::exchange(obstacle_, Obstacle::none);
    if (is_answered_) return;
    switch (obstacle) {
    case Obstacle::none: return;
    case Obstacle::unbound: return bind_event();
    case Obstacle::ended: return refuse(ErrorCode::unknown_event);
    case Obstacle::section: return wait_for_section();
    }
}

// ---- commands ----

void HostCall::send_command(Command& command, Continuation then, bool is_patient) {
    command.token = *token;
    then_ = then;
    park();
    if (!is_patient) wait_at_most(kCommandTimeout);
    switch (zone.commands().send(token->worker, command, *this)) {
    case PostOutcome::ok: return;
    case PostOutcome::dead: return refuse(ErrorCode::unknown_event);
    case PostOutcome::no_memory: return refuse(ErrorCode::no_memory);
    }
}

void HostCall::on_answer(const Command& answer) noexcept {
    if (timer_.timer_set) ngx_del_timer(&timer_);
    resume([&] {
        if (answer.result == kWorkerDied) return refuse(ErrorCode::unknown_event);
        then_(*this, answer);
    });
}

void HostCall::bind_event() {
    is_bound_ = true;
    Command command;
    command.kind = CommandKind::bind_event;
    send_command(command, [](HostCall& call, const Command& answer) {
        const auto error = static_cast<ErrorCode>(answer.result);
        if (error != ErrorCode::ok) return call.refuse(error);
        call.run();
    });
}

// ---- sections ----

// stands in its object's line until the section is over.
void HostCall::wait_for_section() {
    const ObjectSettings* settings = location_settings(request)->object;
    std::string key(location_key);
    if (token) {
        ZoneAccess access(zone);
        const EventRecord* event = find_event(access, *token);
        if (event == nullptr) return refuse(ErrorCode::unknown_event);
        key = event->object->key();
    }
    const ngx_uint_t queue = settings == nullptr ? kDefaultQueue : settings->queue;
    switch (enter_line(zone, key, LineKind::held, static_cast<std::uint32_t>(queue))) {
    case LineOutcome::passed:
    case LineOutcome::granted:
        has_waited_ = true;
        return run();
    case LineOutcome::full: return refuse(ErrorCode::exclusive_queue_full);
    case LineOutcome::no_memory: return refuse(ErrorCode::no_memory);
    case LineOutcome::event_over: return refuse(ErrorCode::unknown_event);
    case LineOutcome::waiting: break;
    }
    park();
    wait_at_most(settings == nullptr ? kDefaultWait : settings->wait);
}

void HostCall::on_granted() noexcept {
    if (timer_.timer_set) ngx_del_timer(&timer_);
    has_waited_ = true;
    resume([this] { run(); });
}

// ---- CallAccess ----

CallAccess::CallAccess(HostCall& call, bool is_held) : call_(call) {
    access_.emplace(call.zone);
    const ObjectRecord* object;
    if (call.token) {
        event_ = find_event(lock(), *call.token);
        if (event_ == nullptr) {
            is_event_over_ = call.is_bound_;
            call.obstacle_ = call.is_bound_ ? HostCall::Obstacle::ended : HostCall::Obstacle::unbound;
            access_.reset();
            return;
        }
        call.is_bound_ = true;
        object = event_->object;
    } else {
        object = find_object(lock(), call.location_key);
    }
    // Whose turn in the line has come goes on, or a loop of sections would hold it for good.
    if (is_held && object != nullptr && !call.has_waited_ && must_wait(*object, event_)) {
        call.obstacle_ = HostCall::Obstacle::section;
        access_.reset();
        return;
    }
    call.has_waited_ = false;
}

std::string_view CallAccess::object_key() const noexcept {
    return event_ == nullptr ? call_.location_key : event_->object->key();
}

// ---- handles ----

std::string handle_text(std::uint64_t handle) {
    constexpr char kHexDigits[] = "0123456789abcdef";
    std::string text(16, '0');
    for (std::size_t i = 16; i-- != 0; handle >>= 4) text[i] = kHexDigits[handle & 15];
    return text;
}

std::optional<std::uint64_t> read_handle(std::string_view text) noexcept {
    if (text.size() != 16) return std::nullopt;
    std::uint64_t handle = 0;
    for (const char c : text) {
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
        handle = handle << 4 | static_cast<std::uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
    }
    return handle;
}

}  // namespace durable
