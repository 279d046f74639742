// SPDX-License-Identifier: BSD-2-Clause
// An event's token as the application sees it: 52 lower-case hex characters, 128 of whose bits are
// random; the rest names the zone and the worker where the event runs.
#pragma once

#include <optional>
#include <string_view>

#include "core/records.h"

namespace durable {

inline constexpr std::size_t kEventTokenSize = 52;

void write_event_token(const EventToken& token, char (&out)[kEventTokenSize]) noexcept;

// Nothing for a text that no token looks like.
[[nodiscard]] std::optional<EventToken> read_event_token(std::string_view text) noexcept;

}  // namespace durable
