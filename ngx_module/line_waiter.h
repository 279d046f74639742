// SPDX-License-Identifier: BSD-2-Clause
// Standing in an object's line for something that this worker does: a request at the gate, a host
// call, a section.
#pragma once

#include "core/line.h"
#include "ngx_module/nginx.h"

namespace durable {

class WorkerZone;

// Whatever waits; its destruction leaves the line.
class LineWaiter {
public:
    // Its turn has come: a section runs now, a held one is out of the line already. Or it is a section
    // whose caller's event has ended: `end_caller_wait` tells.
    virtual void on_granted() noexcept = 0;

    // Stands in the line. passed and granted: no need to wait (a section is to be left later, by
    // `leave_line`); waiting: on_granted will be called.
    // `caller` is the event that asks for a section, if one does: its clock stands still meanwhile.
    [[nodiscard]] LineOutcome enter_line(WorkerZone& zone, std::string_view object_key, LineKind kind,
                                         std::uint32_t queue, const EventToken* caller = nullptr);
    // A section's turn has come: its caller's clock runs again. False when that event is over.
    [[nodiscard]] bool end_caller_wait() noexcept;
    // Names the event of the section that runs now.
    void set_token(const EventToken& token) noexcept;
    // Leaves the line or ends the section; harmless for one that is in none.
    void leave_line() noexcept;
    bool is_in_line() const noexcept { return entry_ != nullptr; }
    LineEntryRecord* entry() const noexcept { return entry_; }
    // Whether it has ever waited, and the milliseconds spent so until now; for `$durable_wait`.
    bool has_waited_in_line() const noexcept { return has_waited_; }
    ngx_msec_t waited() const noexcept { return is_waiting_ ? waited_ + (ngx_current_msec - since_) : waited_; }

protected:
    LineWaiter() = default;
    ~LineWaiter() { leave_line(); }
    LineWaiter(const LineWaiter&) = delete;

private:
    friend class WorkerZone;
    WorkerZone* zone_ = nullptr;
    void stop_clock() noexcept;

    LineEntryRecord* entry_ = nullptr;
    ngx_msec_t since_ = 0;
    ngx_msec_t waited_ = 0;
    bool is_waiting_ = false;
    bool has_waited_ = false;
};

}  // namespace durable
