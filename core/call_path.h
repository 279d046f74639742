// SPDX-License-Identifier: BSD-2-Clause
// The path of a host call, read as it was sent: nginx decodes a path and resolves its dots before
// it could be split, but `.` and `..` are channel names, and a name may hold an escaped `/`.
#pragma once

#include <optional>
#include <string_view>

#include "core/url_text.h"

namespace durable {

// What follows `prefix`, a location's name, in `raw`, a request's target with nothing decoded; its
// query does not count. The prefix's bytes may be escaped there and its slashes doubled; all slashes
// between it and the call go too. Nothing where `raw` does not begin so, or goes on within a segment.
[[nodiscard]] std::optional<std::string_view> path_below(std::string_view raw, std::string_view prefix) noexcept;

// Whether the segments are those of `pattern`, where `{}` stands for any one, which is put into
// `argument`, not decoded.
[[nodiscard]] bool matches_call(const PathSegments& path, std::string_view pattern, std::string_view& argument) noexcept;

}  // namespace durable
