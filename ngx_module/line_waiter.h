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
    // Its turn has come: a section runs now, a held one is out of the line already.
    virtual void on_granted() noexcept = 0;

    // Stands in the line. passed and granted: no need to wait (a section is to be left later, by
    // `leave_line`); waiting: on_granted will be called.
    [[nodiscard]] LineOutcome enter_line(WorkerZone& zone, std::string_view object_key, LineKind kind, std::uint32_t queue);
    // Names the event of the section that runs now.
    void set_token(const EventToken& token) noexcept;
    // Leaves the line or ends the section; harmless for one that is in none.
    void leave_line() noexcept;
    bool is_in_line() const noexcept { return entry_ != nullptr; }
    LineEntryRecord* entry() const noexcept { return entry_; }

protected:
    LineWaiter() = default;
    ~LineWaiter() { leave_line(); }
    LineWaiter(const LineWaiter&) = delete;

private:
    friend class WorkerZone;
    WorkerZone* zone_ = nullptr;
    LineEntryRecord* entry_ = nullptr;
};

}  // namespace durable
