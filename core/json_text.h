// SPDX-License-Identifier: BSD-2-Clause
// Writes our own small JSON answers and reads our own small JSON documents (with cJSON).
// Nothing here needs a lock; whatever appends or parses may allocate in the worker's heap.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace durable {

// Appends `text` as a JSON string with its quotes (RFC 8259, 7): only what must be escaped is.
// `text` must be valid UTF-8 for the result to be JSON.
void append_json_string(std::string& out, std::string_view text);

// Appends the inside of a JSON string, without quotes, for bytes that nobody has checked: each
// invalid byte becomes U+FFFD, and what goes on past `max_bytes` is cut between two characters and
// replaced by an ellipsis.
void append_json_untrusted(std::string& out, std::string_view bytes, std::size_t max_bytes);

// The body of `POST stream`. The values are not judged here: see text_rules.h.
struct StreamStart {
    int status = 200;  // -1: a number, but no whole number that an int holds
    std::vector<std::pair<std::string, std::string>> headers;
};

// Reads `{"status":200,"headers":[["Name","value"],…]}`; a missing member keeps its default, an
// unknown one is ignored, an empty body means the defaults. Nothing where the body is not JSON, a
// member has the wrong type, or a string holds the escape of a NUL byte, which cJSON would cut at.
[[nodiscard]] std::optional<StreamStart> parse_stream_start(std::string_view body);

// Whether a valid JSON text holds the escape of a NUL byte: cJSON's strings end there.
[[nodiscard]] bool has_nul_escape(std::string_view json) noexcept;

}  // namespace durable
