// SPDX-License-Identifier: BSD-2-Clause
#include "core/text_rules.h"

#include <simdjson.h>

#include <algorithm>

namespace durable {

namespace {

constexpr std::string_view kOwnEventPrefix = "durable-";

// S-5, in lower case.
constexpr std::string_view kForbiddenHeaders[] = {
    "content-length", "transfer-encoding", "connection",       "keep-alive", "upgrade",     "te",
    "trailer",        "content-type",      "content-encoding", "set-cookie", "set-cookie2",
};

bool is_letter_or_digit(char byte) noexcept {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
}

bool is_channel_byte(char byte) noexcept {
    return is_letter_or_digit(byte) || byte == '.' || byte == '_' || byte == ':' || byte == '-';
}

// RFC 9110, 5.6.2
bool is_token_byte(char byte) noexcept {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return is_letter_or_digit(byte) || kMarks.find(byte) != std::string_view::npos;
}

bool is_header_value_byte(char byte) noexcept { return byte == '\t' || (byte >= 0x20 && byte <= 0x7E); }

char lower(char byte) noexcept { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 0x20) : byte; }

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char left, char right) { return lower(left) == lower(right); });
}

// In valid UTF-8 the C1 controls U+0080 to U+009F are 0xC2 followed by 0x80 to 0x9F.
bool has_control_character(std::string_view text) noexcept {
    unsigned char before = 0;
    for (const char each : text) {
        const auto byte = static_cast<unsigned char>(each);
        if (byte < 0x20 || byte == 0x7F || (before == 0xC2 && byte <= 0x9F)) return true;
        before = byte;
    }
    return false;
}

bool is_label(std::string_view text, std::size_t max_bytes) noexcept {
    return !text.empty() && text.size() <= max_bytes && is_valid_utf8(text) && !has_control_character(text);
}

ErrorCode check_header(std::string_view name, std::string_view value) noexcept {
    if (name.empty() || name.size() > kMaxHeaderName || !std::all_of(name.begin(), name.end(), is_token_byte)) {
        return ErrorCode::invalid_header_name;
    }
    for (std::string_view forbidden : kForbiddenHeaders) {
        if (equals_ignoring_case(name, forbidden)) return ErrorCode::forbidden_header;
    }
    if (value.size() > kMaxHeaderValue || !std::all_of(value.begin(), value.end(), is_header_value_byte)) {
        return ErrorCode::invalid_header_value;
    }
    return ErrorCode::ok;
}

}  // namespace

bool is_valid_utf8(std::string_view text) noexcept { return simdjson::validate_utf8(text); }

ErrorCode check_object_key(std::string_view key) noexcept {
    return key.empty() || key.size() > kMaxObjectKey ? ErrorCode::invalid_object : ErrorCode::ok;
}

ErrorCode check_channel_name(std::string_view name) noexcept {
    const bool is_valid =
        !name.empty() && name.size() <= kMaxChannelName && std::all_of(name.begin(), name.end(), is_channel_byte);
    return is_valid ? ErrorCode::ok : ErrorCode::invalid_channel;
}

ErrorCode check_published_text(std::string_view text) noexcept {
    if (text.size() > kMaxText) return ErrorCode::channel_text_too_large;
    if (!text.empty() && text.front() == '\xFF') return ErrorCode::text_starts_with_ff;
    return is_valid_utf8(text) ? ErrorCode::ok : ErrorCode::text_not_utf8;
}

ErrorCode check_stream_text(std::string_view text) noexcept {
    if (text.size() > kMaxText) return ErrorCode::stream_text_too_large;
    return is_valid_utf8(text) ? ErrorCode::ok : ErrorCode::text_not_utf8;
}

ErrorCode check_reason(std::string_view reason) noexcept {
    if (reason.size() > kMaxReason) return ErrorCode::reason_too_large;
    return is_valid_utf8(reason) ? ErrorCode::ok : ErrorCode::text_not_utf8;
}

ErrorCode check_event_type(std::string_view type) noexcept {
    const bool is_own = type.substr(0, kOwnEventPrefix.size()) == kOwnEventPrefix;
    return is_label(type, kMaxEventType) && !is_own ? ErrorCode::ok : ErrorCode::invalid_event_type;
}

ErrorCode check_operation_name(std::string_view name) noexcept {
    return is_label(name, kMaxOperationName) ? ErrorCode::ok : ErrorCode::invalid_operation;
}

ErrorCode check_stream_status(int status) noexcept {
    const bool is_valid = status >= 200 && status <= 299 && status != 204 && status != 205;
    return is_valid ? ErrorCode::ok : ErrorCode::invalid_status;
}

TimeoutResult parse_wait_timeout(std::optional<std::string_view> text) noexcept {
    constexpr TimeoutResult kRefused{ErrorCode::invalid_timeout, 0};
    if (!text || text->empty()) return kRefused;
    TimeoutResult result;
    for (const char digit : *text) {
        if (digit < '0' || digit > '9') return kRefused;
        result.timeout_ms = result.timeout_ms * 10 + static_cast<std::uint32_t>(digit - '0');
        if (result.timeout_ms > kMaxWaitMs) return kRefused;
    }
    return result;
}

HeadersResult check_stream_headers(const std::vector<std::pair<std::string, std::string>>& headers) noexcept {
    if (headers.size() > kMaxStreamHeaders) return {ErrorCode::too_many_headers, kMaxStreamHeaders};
    for (std::size_t index = 0; index < headers.size(); ++index) {
        const auto& [name, value] = headers[index];
        const ErrorCode error = check_header(name, value);
        if (error != ErrorCode::ok) return {error, index};
        for (std::size_t other = 0; other < index; ++other) {
            if (equals_ignoring_case(headers[other].first, name)) return {ErrorCode::duplicate_header, index};
        }
    }
    return {};
}

}  // namespace durable
