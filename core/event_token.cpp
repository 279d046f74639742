// SPDX-License-Identifier: BSD-2-Clause
#include "core/event_token.h"

namespace durable {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

char* write_hex(char* out, std::uint64_t value, int digits) noexcept {
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) *out++ = kHexDigits[(value >> shift) & 15];
    return out;
}

int hex_value(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

// Reads `digits` digits that are known to be valid.
std::uint64_t read_hex(std::string_view& text, int digits) noexcept {
    std::uint64_t value = 0;
    for (int i = 0; i < digits; ++i) value = value << 4 | static_cast<std::uint64_t>(hex_value(text[static_cast<std::size_t>(i)]));
    text.remove_prefix(static_cast<std::size_t>(digits));
    return value;
}

}  // namespace

void write_event_token(const EventToken& token, char (&out)[kEventTokenSize]) noexcept {
    char* at = out;
    for (const std::uint8_t byte : token.random) at = write_hex(at, byte, 2);
    at = write_hex(at, token.zone, 8);
    at = write_hex(at, token.worker.slot, 4);
    write_hex(at, token.worker.generation, 8);
}

std::optional<EventToken> read_event_token(std::string_view text) noexcept {
    if (text.size() != kEventTokenSize) return std::nullopt;
    for (const char c : text) {
        if (hex_value(c) < 0) return std::nullopt;
    }
    EventToken token;
    for (std::uint8_t& byte : token.random) byte = static_cast<std::uint8_t>(read_hex(text, 2));
    token.zone = static_cast<std::uint32_t>(read_hex(text, 8));
    token.worker.slot = static_cast<std::uint16_t>(read_hex(text, 4));
    token.worker.generation = static_cast<std::uint32_t>(read_hex(text, 8));
    return token;
}

}  // namespace durable
