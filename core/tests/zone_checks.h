// SPDX-License-Identifier: BSD-2-Clause
// Walks everything in a zone and says what contradicts what.
#pragma once

#include <functional>
#include <string>

#include "core/zone.h"

namespace durable {

// Whether a block is one that was allocated and not released since.
using IsLive = std::function<bool(const void*)>;

// What is wrong, empty when nothing is: links forward and backward, counts, indexes, states, and
// that nothing which can still be reached was freed.
std::string find_fault(const ZoneRoot& root, const IsLive& is_live);

// The blocks that the zone's records reach, the root and its indexes included.
std::size_t count_reachable(const ZoneRoot& root);

// Fails the running test if something is wrong.
void expect_consistent(const ZoneRoot& root, const IsLive& is_live);

}  // namespace durable
