// SPDX-License-Identifier: BSD-2-Clause
// One host call: who is calling, what was asked, and how it is answered.
//
// A call's function (the rows of host_calls.cpp) gets the HostCall once its body has been read. It
// checks its arguments, opens a CallAccess, does its work under it, and answers, at once or later:
//
//     void publish_message(HostCall& call) {
//         if (check(…) != ok) return call.refuse(…);   // changes nothing (C-7)
//         CallAccess access(call);
//         if (!access) return;                         // see there
//         … access.lock(), access.event(), access.object_key() …
//         access.release();
//         call.answer(NGX_HTTP_OK, body);
//     }
//
// Later: the function makes an object in the request's pool (create_in_pool) that waits for whatever
// it is, calls `park`, and returns without an answer. A client that leaves then ends the request, and
// the object's destructor undoes what it waits with. What continues the call from an event that is
// not the request's own (a timer, a wake-up) does so inside `resume`; see message_wait.cpp. A command
// to the worker that runs the event has all of that in `send_command`. The request is over when the
// outermost function returns after an answer; until then `call` and the pool are valid.
//
// The event's own worker is `token->worker`; only there is its request known (RunningEvents).
#pragma once

#include <optional>

#include "ngx_module/commands.h"
#include "ngx_module/line_waiter.h"
#include "ngx_module/log.h"
#include "ngx_module/worker.h"

namespace durable {

struct HostCallRow;
class MessageWait;
class Section;

class HostCall final : public CommandCaller, public LineWaiter {
public:
    // Does a call's work; may be called again, so it changes nothing before it has its CallAccess.
    using Work = void (*)(HostCall& call);
    // What goes on with a command's answer.
    using Continuation = void (*)(HostCall& call, const Command& answer);

    // Lives in the request's pool; nullptr when out of memory.
    static HostCall* create(ngx_http_request_t* r, const HostCallRow& row, WorkerZone& zone);
    static HostCall* of(ngx_http_request_t* r) noexcept;

    HostCall(ngx_http_request_t* r, const HostCallRow& row, WorkerZone& zone) noexcept;
    ~HostCall();

    ngx_http_request_t* const request;
    WorkerZone& zone;
    std::optional<EventToken> token;  // nothing: the call acts on its location's object
    std::string_view location_key;    // that object's; lives as long as the request
    std::string argument;             // the path's, percent-decoded once
    MessageWait* wait = nullptr;      // of a call that waits for a message
    Section* section = nullptr;       // that a call asked for
    std::string storage;              // what a call keeps for its later work

    // The body as text; `storage` holds it where it was not in one piece. False: its file cannot be
    // read, and the call has been answered.
    [[nodiscard]] bool read_body(std::string& storage, std::string_view& text);

    // ---- answering, once ----
    void answer(ngx_uint_t status, std::string_view json);
    void answer_nothing();  // 204
    void refuse(ErrorCode error, std::string_view detail = {});
    // An answer that the caller has sent itself: what a content handler would return.
    void finish(ngx_int_t rc) noexcept;

    // ---- later ----
    // The call is answered later; until then its client may leave, which ends the request.
    void park() noexcept;
    // Whether the client has left already, even if no event has told so yet (C-23).
    bool is_client_gone() const noexcept;
    // Ends a parked request whose client has left.
    void abandon() noexcept { finish(NGX_HTTP_CLIENT_CLOSED_REQUEST); }

    // Goes on with `work` from now on, instead of the row's function.
    void set_work(Work work) noexcept { work_ = work; }
    // Does the work, now; see CallAccess.
    void run();

    // Runs `body` and then ends the request if that answered the call.
    template <class Body>
    void resume(Body&& body) noexcept {
        ngx_connection_t* c = request->connection;
        const bool is_outermost = depth_ == 0;
        if (is_outermost) ngx_http_set_log_request(c->log, request);
        run_guarded(body);
        end_if_answered();
        // A section's subrequest has been posted, or the end has posted something.
        if (is_outermost) ngx_http_run_posted_requests(c);
    }

    // Sends a command to the worker that runs the call's event, and parks the call. A worker that is
    // gone is `unknown_event`, a full zone `no_memory`; everything else goes to `then`. A patient one
    // waits for whatever the other worker waits for, without a limit of its own.
    void send_command(Command& command, Continuation then, bool is_patient = false);

    // The row's function, once the body is there; from the request's own event.
    void start() noexcept;

private:
    friend class CallAccess;
    enum class Obstacle : std::uint8_t { none, unbound, ended, section };

    template <class Body>
    void run_guarded(Body&& body) noexcept {
        ++depth_;
        const ngx_int_t rc = guarded(request->connection->log, "a host call", [&] {
            body();
            return NGX_OK;
        });
        if (rc != NGX_OK && !is_answered_) finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
        --depth_;
    }
    bool end_if_answered() noexcept;
    void wait_at_most(ngx_msec_t time) noexcept;
    void bind_event();
    void wait_for_section();
    void on_answer(const Command& answer) noexcept override;
    void on_granted() noexcept override;
    static void on_timeout(ngx_event_t* event) noexcept;

    const HostCallRow& row_;
    Work work_;
    Continuation then_ = nullptr;
    ngx_event_t timer_{};
    ngx_int_t rc_ = NGX_OK;
    int depth_ = 0;
    Obstacle obstacle_ = Obstacle::none;
    bool is_answered_ = false;
    bool is_bound_ = false;    // the event's record has been asked for
    bool has_waited_ = false;  // its turn in the object's line has come
};

// The zone under its lock, with the call's event and object. False where the call cannot act now: the
// event is over, its record has to be made first, or a section runs on its object. The call's
// function returns then; it is called again, or the call is refused.
class CallAccess {
public:
    static constexpr bool kNotHeld = false;
    explicit CallAccess(HostCall& call, bool is_held = true);

    explicit operator bool() const noexcept { return access_.has_value(); }
    // Why it is false: the event has ended. A call that has no answer of its own for this is refused.
    bool is_event_over() const noexcept { return is_event_over_; }
    ZoneLock& lock() noexcept { return **access_; }
    // nullptr for a call without a token.
    EventRecord* event() const noexcept { return event_; }
    std::string_view object_key() const noexcept;
    // Gives the lock back.
    void release() noexcept { access_.reset(); }

private:
    const HostCall& call_;
    std::optional<ZoneAccess> access_;
    EventRecord* event_ = nullptr;
    bool is_event_over_ = false;
};

// Handles as the application sees them: 16 lower-case hex characters.
[[nodiscard]] std::string handle_text(std::uint64_t handle);
// Nothing for a text that no handle looks like.
[[nodiscard]] std::optional<std::uint64_t> read_handle(std::string_view text) noexcept;

}  // namespace durable
