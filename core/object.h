// SPDX-License-Identifier: BSD-2-Clause
// Durable objects in a zone: found by key, made by the first thing that belongs to one, gone with
// the last.
#pragma once

#include <string_view>

#include "core/zone.h"

namespace durable {

// nullptr when there is none.
[[nodiscard]] ObjectRecord* find_object(const ZoneLock& lock, std::string_view key) noexcept;

// Finds or makes it, with one more reference. nullptr when the zone is full.
[[nodiscard]] ObjectRecord* refer_to_object(ZoneLock& lock, std::string_view key) noexcept;

// Gives a reference back; the last one frees the object.
void release_object(ZoneLock& lock, ObjectRecord& object) noexcept;

}  // namespace durable
