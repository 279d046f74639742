// SPDX-License-Identifier: BSD-2-Clause
// One line per object: sections run one at a time in the order asked for, and what arrives during
// one waits behind it (spec ).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/zone.h"

namespace durable {

enum class LineOutcome : std::uint8_t {
    passed,   // a held one whose turn it is already; no entry was made
    granted,  // a section that runs now
    waiting,
    full,  // X-16b
    no_memory,
    event_over,  // the event that asks for the section has ended
};

struct LineResult {
    LineOutcome outcome = LineOutcome::passed;
    LineEntryRecord* entry = nullptr;  // of `granted` and `waiting`
};

// The event that asks for a section. `now_ms` is a clock that all workers share and that never goes back.
struct LineCaller {
    EventToken token;
    std::uint64_t now_ms = 0;
};

// Stands in the object's line. `ticket` is what `take_granted` will name; `queue` bounds those waiting.
[[nodiscard]] LineResult enter_line(ZoneLock& lock, std::string_view object_key, LineKind kind, std::uint64_t ticket,
                                    std::uint32_t queue, const LineCaller* caller = nullptr) noexcept;

// The section does not wait any more, and its caller's clock runs again. False when the caller's
// event has ended. A section without a caller is true.
bool end_caller_wait(ZoneLock& lock, LineEntryRecord& entry, std::uint64_t now_ms) noexcept;

// How long the event's sections have waited since this was last asked, in ms.
[[nodiscard]] std::uint64_t take_queued_time(EventRecord& event, std::uint64_t now_ms) noexcept;

// The event ends: its sections that wait leave the line, and their workers are told.
void withdraw_sections(ZoneLock& lock, EventRecord& event) noexcept;

// Leaves it, waiting or granted, and frees the entry. A section that leaves lets the next ones go.
void leave_line(ZoneLock& lock, LineEntryRecord* entry) noexcept;

// The next entry of this worker whose turn has come; its state is `granted`, or `withdrawn`. nullptr
// when none. One that was held is to be left at once, which lets the ones behind it go too.
[[nodiscard]] LineEntryRecord* take_granted(ZoneLock& lock) noexcept;

// Lets those at the head go, a bounded number of them: the held ones up to the next section, or that
// section. `leave_line` does it by itself.
void advance_line(ZoneLock& lock, ObjectRecord& object) noexcept;

// Whether a call for the object has to wait: a section runs that `event` is not part of.
// `event` may be nullptr.
[[nodiscard]] bool must_wait(const ObjectRecord& object, const EventRecord* event) noexcept;

// Whether the object's running section is the one of this event: its own requests pass (X-14a).
[[nodiscard]] bool runs_section_of(const ZoneLock& lock, std::string_view object_key, const EventToken& token) noexcept;

}  // namespace durable
