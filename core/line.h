// SPDX-License-Identifier: BSD-2-Clause
// One line per object: sections run one at a time in the order asked for, and what arrives during
// one waits behind it (spec ).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/zone.h"

namespace durable {

enum class LineOutcome : std::uint8_t {
    passed,     // a held one whose turn it is already; no entry was made
    granted,    // a section that runs now
    waiting,
    full,       // X-16b
    no_memory,
};

struct LineResult {
    LineOutcome outcome = LineOutcome::passed;
    LineEntryRecord* entry = nullptr;  // of `granted` and `waiting`
};

// Stands in the object's line. `ticket` is what `take_granted` will name; `queue` bounds those waiting.
[[nodiscard]] LineResult enter_line(ZoneLock& lock, std::string_view object_key, LineKind kind, std::uint64_t ticket,
                                    std::uint32_t queue) noexcept;

// Leaves it, waiting or granted, and frees the entry. A section that leaves lets the next ones go.
void leave_line(ZoneLock& lock, LineEntryRecord* entry) noexcept;

// The next entry of this worker whose turn has come; its state is `granted`. nullptr when none.
// One that was held is to be left at once, which lets the ones behind it go too.
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
