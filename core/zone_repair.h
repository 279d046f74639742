// SPDX-License-Identifier: BSD-2-Clause
// Mends what a worker left half done when it was killed while it held the lock.
#pragma once

#include "core/zone.h"

namespace durable {

// Called with the lock taken over from a dead holder, before anything else is done. The forward
// chains are whole; backward links and counts are derived from them again. What the dead worker had
// taken but not yet linked is lost until the zone is made anew.
void repair_zone(ZoneLock& lock) noexcept;

}  // namespace durable
