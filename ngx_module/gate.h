// SPDX-License-Identifier: BSD-2-Clause
// A request's wait in its object's line: until no section runs, or until it is the section
// itself. While it waits a leaving client gives up its place.
#pragma once

#include "ngx_module/line_waiter.h"

namespace durable {

class RequestContext;

class Gate final : public LineWaiter {
public:
    explicit Gate(RequestContext& context) noexcept;
    ~Gate();

    // Stands in the line. NGX_DECLINED: its turn is now; NGX_DONE: it waits, or has been refused.
    ngx_int_t enter(WorkerZone& zone, std::string_view object_key, LineKind kind, ngx_uint_t queue, ngx_msec_t wait);

    // The section that it holds, nullptr if none.
    LineEntryRecord* section() const noexcept { return is_section_ ? entry() : nullptr; }

    void on_granted() noexcept override;

private:
    static void on_timeout(ngx_event_t* event) noexcept;

    RequestContext& context_;
    ngx_http_request_t* request_;
    ngx_event_t timer_{};
    bool is_section_ = false;
};

}  // namespace durable
