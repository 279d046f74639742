// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/line_waiter.h"

#include "ngx_module/worker.h"

namespace durable {

LineOutcome LineWaiter::enter_line(WorkerZone& zone, std::string_view object_key, LineKind kind, std::uint32_t queue) {
    const std::uint64_t ticket = zone.new_ticket();
    LineResult result;
    {
        ZoneAccess access(zone);
        result = durable::enter_line(access, object_key, kind, ticket, queue);
    }
    if (result.entry == nullptr) return result.outcome;
    zone_ = &zone;
    entry_ = result.entry;
    zone.keep_ticket(ticket, *this);
    return result.outcome;
}

void LineWaiter::set_token(const EventToken& token) noexcept {
    ZoneAccess access(*zone_);
    entry_->token = token;
}

void LineWaiter::leave_line() noexcept {
    if (entry_ == nullptr) return;
    LineEntryRecord* entry = entry_;
    entry_ = nullptr;
    if (!zone_->is_claimed()) return;  // the worker has left the zone with all that it had there
    ZoneAccess access(*zone_);
    zone_->drop_ticket(entry->ticket);
    durable::leave_line(access, entry);
}

}  // namespace durable
