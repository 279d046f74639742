// SPDX-License-Identifier: BSD-2-Clause
// Mends what a worker left half done when it was killed while it held the lock.
#pragma once

#include "core/zone.h"

namespace durable {

// Called with the lock taken over from a dead holder, before anything else is done; may be killed
// and called again itself. A step that was under way is completed or taken back; afterwards every
// worker looks at everything once, so no wake-up is lost. The dead worker's own things stay until
// `forget_worker`.
// What it had allocated but not linked yet, or unlinked but not freed, is lost until the zone is
// made anew: at most one message and a few records. The memory's own structures are not mended.
// Unlike all else under the lock its cost grows with the zone's content.
void repair_zone(ZoneLock& lock) noexcept;

}  // namespace durable
