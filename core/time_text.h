// SPDX-License-Identifier: BSD-2-Clause
// Times as text: ISO 8601 for expiresAt (E-11) and HTTP dates for Retry-After (RFC 9110, 5.6.7). Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace durable {

// Unix seconds, a fraction dropped. Takes YYYY-MM-DD and YYYY-MM-DDThh:mm[:ss[.f]][Z|±hh:mm]; UTC where no offset is
// given. nullopt for anything else, and for dates that do not exist.
[[nodiscard]] std::optional<std::int64_t> parse_iso_time(std::string_view text) noexcept;

// Unix seconds of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept;

// Seconds from `now_s` on that Retry-After asks for, 0 when it lies in the past; nullopt when it is neither form.
[[nodiscard]] std::optional<std::int64_t> parse_retry_after(std::string_view text, std::int64_t now_s) noexcept;

}  // namespace durable
