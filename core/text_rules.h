// SPDX-License-Identifier: BSD-2-Clause
// Every syntactic rule of the specification: names, sizes, headers, UTF-8. A check answers
// ErrorCode::ok or the refusal; it changes nothing and needs no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace durable {

inline constexpr std::size_t kMaxObjectKey = 512;
inline constexpr std::size_t kMaxChannelName = 64;
inline constexpr std::size_t kMaxText = 65536;
inline constexpr std::size_t kMaxReason = 1024;
inline constexpr std::uint32_t kMaxWaitMs = 3600000;
inline constexpr std::size_t kMaxEventType = 256;
inline constexpr std::size_t kMaxStreamHeaders = 32;
inline constexpr std::size_t kMaxHeaderName = 64;
inline constexpr std::size_t kMaxHeaderValue = 8192;
inline constexpr std::size_t kMaxOperationName = 128;
inline constexpr std::size_t kMaxJsonText = 8388608;  // params and result

[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

// 1 to 512 bytes of anything.
[[nodiscard]] ErrorCode check_object_key(std::string_view key) noexcept;
// C-1
[[nodiscard]] ErrorCode check_channel_name(std::string_view name) noexcept;
// C-4: a text for a channel. The size is judged first.
[[nodiscard]] ErrorCode check_published_text(std::string_view text) noexcept;
// S-10: a write to an event stream. The size is judged first, before the stream's state.
[[nodiscard]] ErrorCode check_stream_text(std::string_view text) noexcept;
// C-5, S-19: the reason of a close or an abort. Empty is legal.
[[nodiscard]] ErrorCode check_reason(std::string_view reason) noexcept;
// The SSE event type of a publish: 1 to 256 bytes of UTF-8 without control characters (C0, DEL, C1)
// that do not begin with `durable-`.
[[nodiscard]] ErrorCode check_event_type(std::string_view type) noexcept;
// 1 to 128 bytes of UTF-8 without control characters.
[[nodiscard]] ErrorCode check_operation_name(std::string_view name) noexcept;
// S-2
[[nodiscard]] ErrorCode check_stream_status(int status) noexcept;

struct TimeoutResult {
    ErrorCode error = ErrorCode::ok;
    std::uint32_t timeout_ms = 0;
};
// C-6: decimal digits alone, no sign or space. Nothing stands for a missing argument, which is refused.
[[nodiscard]] TimeoutResult parse_wait_timeout(std::optional<std::string_view> text) noexcept;

struct HeadersResult {
    ErrorCode error = ErrorCode::ok;
    std::size_t index = 0;  // of the header that was refused
};
// S-4, S-5: the extra headers of a stream, pairs of name and value.
[[nodiscard]] HeadersResult check_stream_headers(
    const std::vector<std::pair<std::string, std::string>>& headers) noexcept;

}  // namespace durable
