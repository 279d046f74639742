// SPDX-License-Identifier: BSD-2-Clause
// An exclusive section (X-1 to X-16b): the call that asked for it stands in its object's line; at the
// head the application is entered anew through a background subrequest to the handler, whose answer
// is collected here instead of being sent. The caller has its answer, then the line moves on.
#pragma once

#include "ngx_module/host_call.h"
#include "ngx_module/json_task.h"

namespace durable {

class Section final : public LineWaiter {
public:
    // How the caller's event wants its sections run.
    struct Rules {
        std::string handler;  // a URI
        ngx_msec_t timeout;
        std::uint32_t queue;
    };

    // Lives in the pool of the call's request; nullptr when out of memory.
    static Section* create(HostCall& call, std::string object_key, Rules rules);
    // The section that runs in this subrequest, nullptr if it is not one's.
    static Section* of(ngx_http_request_t* subrequest) noexcept;

    Section(HostCall& call, std::string object_key, Rules rules) noexcept;
    ~Section();

    // Stands in the line, or runs at once.
    void start();

    // ---- commands for its event ----
    void answer_read(const Command& command);
    void complete(const Command& command);

    // ---- the subrequest's phases and filters ----
    static void on_precontent(ngx_http_request_t* subrequest) noexcept;
    ngx_int_t on_header(const ngx_http_request_t* subrequest) noexcept;
    ngx_int_t on_body(ngx_chain_t* in);

    EventToken token;  // of the section's event

    // The handler has answered, or failed.
    void on_handler_done(ngx_http_request_t* subrequest, ngx_int_t rc) noexcept;

private:
    void on_granted() noexcept override;
    void run();
    bool begin_event();
    void end_event() noexcept;
    ngx_int_t enter_handler();
    bool add_headers(ngx_http_request_t* subrequest);
    void abort_handler() noexcept;
    void judge();
    void succeed();
    void fail(ErrorCode error, std::string_view detail = {});
    void let_the_next_go() noexcept;
    static void on_timeout(ngx_event_t* event) noexcept;
    static void on_done(ngx_event_t* event) noexcept;
    static void on_result_checked(HostCall& call, JsonTask& task);

    HostCall& call_;
    std::string object_key_;
    Rules rules_;
    ngx_http_request_t* subrequest_ = nullptr;  // while it runs
    ngx_http_post_subrequest_t post_subrequest_{};
    ngx_event_t timer_{};  // the limit
    ngx_event_t done_{};   // posted when the handler has answered
    std::string body_;     // what the handler answered
    std::string result_;   // what `POST section/result` gave, or the body once it is checked
    ngx_uint_t status_ = 0;
    bool has_result_ = false;
    bool is_running_ = false;
    bool is_whole_ = false;  // the handler's answer came to its end
    bool is_too_large_ = false;
};

}  // namespace durable
