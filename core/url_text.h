// SPDX-License-Identifier: BSD-2-Clause
// The parts of a request's target that we read ourselves, because nginx decodes a path before it
// could be split (RFC 3986). No lock; nothing is kept.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace durable {

// Decodes each %XX once; `+` stays as it is. Nothing where an escape is broken. The result may hold
// any byte, NUL too.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

// Unreserved characters (RFC 3986, 2.3) stay, every other byte becomes %XX.
void append_percent_encoded(std::string& out, std::string_view bytes);

// More segments than any call has.
inline constexpr std::size_t kMaxPathSegments = 8;

struct PathSegments {
    std::array<std::string_view, kMaxPathSegments> at;  // views of the path, not decoded
    std::size_t count = 0;                              // 0: more than kMaxPathSegments
};

// Splits at every `/` as it was sent, so that an escaped one belongs to its segment. Empty segments
// count: "" is one, "a/" are two.
[[nodiscard]] PathSegments split_path(std::string_view path) noexcept;

// The value, not decoded, of the first argument of this name in `a=1&b=2`. Empty where it has no
// value, nothing where there is no such argument. Names are compared as they were sent.
[[nodiscard]] std::optional<std::string_view> find_argument(std::string_view query, std::string_view name) noexcept;

}  // namespace durable
