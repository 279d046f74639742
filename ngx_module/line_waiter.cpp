// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/line_waiter.h"

#include "ngx_module/worker.h"

namespace durable {

// nginx's clock counts from the machine's start, so it is the same in all workers.
LineOutcome LineWaiter::enter_line(WorkerZone& zone, std::string_view object_key, LineKind kind, std::uint32_t queue,
                                   const EventToken* caller) {
    const std::uint64_t ticket = zone.new_ticket();
    const LineCaller waits{caller == nullptr ? EventToken() : *caller, ngx_current_msec};
    LineResult result;
    {
        ZoneAccess access(zone);
        result = durable::enter_line(access, object_key, kind, ticket, queue, caller == nullptr ? nullptr : &waits);
    }
    if (result.entry == nullptr) return result.outcome;
    zone_ = &zone;
    entry_ = result.entry;
    zone.keep_ticket(ticket, *this);
    if (result.outcome == LineOutcome::waiting) {
        is_waiting_ = has_waited_ = true;
        since_ = ngx_current_msec;
    }
    return result.outcome;
}

void LineWaiter::stop_clock() noexcept {
    waited_ = waited();
    is_waiting_ = false;
}

bool LineWaiter::end_caller_wait() noexcept {
    stop_clock();
    ZoneAccess access(*zone_);
    return durable::end_caller_wait(access, *entry_, ngx_current_msec);
}

void LineWaiter::set_token(const EventToken& token) noexcept {
    ZoneAccess access(*zone_);
    entry_->token = token;
}

void LineWaiter::leave_line() noexcept {
    if (entry_ == nullptr) return;
    LineEntryRecord* entry = entry_;
    entry_ = nullptr;
    stop_clock();
    if (!zone_->is_claimed()) return;  // the worker has left the zone with all that it had there
    ZoneAccess access(*zone_);
    zone_->drop_ticket(entry->ticket);
    (void)durable::end_caller_wait(access, *entry, ngx_current_msec);
    durable::leave_line(access, entry);
}

}  // namespace durable
