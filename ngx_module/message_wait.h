// SPDX-License-Identifier: BSD-2-Clause
// A host call's wait for the next message of a subscription (spec C-18 to C-24). It may stand in one
// worker while the event runs in another and the publisher in a third: between two looks it holds
// nothing of the zone but its name among those whom the channel's station wakes.
#pragma once

#include "ngx_module/host_call.h"

namespace durable {

class MessageWait final : public StationListener {
public:
    MessageWait(HostCall& call, std::uint64_t handle, std::uint32_t timeout_ms) noexcept;
    ~MessageWait();

    // Looks for a message and answers, or waits for the next one; but never takes one for a client that
    // has left (C-23). The call's work.
    void look();

    void on_station_ready() noexcept override;

private:
    static void on_timeout(ngx_event_t* event) noexcept;
    static void on_posted(ngx_event_t* event) noexcept;
    void wake() noexcept;
    ErrorCode await(ZoneLock& lock, CursorRecord& cursor);
    void stop_awaiting() noexcept;
    void forget_station() noexcept;

    HostCall& call_;
    const std::uint64_t handle_;
    const std::uint32_t timeout_ms_;
    ngx_event_t timer_{};
    ngx_event_t posted_{};
    bool is_awaiting_ = false;  // the subscription names this worker's station for this wait
    bool is_timed_out_ = false;
};

// Starts a call's wait.
void wait_for_message(HostCall& call, std::uint32_t timeout_ms);

}  // namespace durable
