// SPDX-License-Identifier: BSD-2-Clause
#include "core/call_path.h"

namespace durable {

namespace {

int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

// The byte that `text` begins with, and how many characters it is written with.
struct Byte {
    char value;
    std::size_t size;
};

Byte first_byte(std::string_view text) noexcept {
    if (text[0] != '%' || text.size() < 3) return {text[0], 1};
    const int high = hex_value(text[1]);
    const int low = hex_value(text[2]);
    if (high < 0 || low < 0) return {text[0], 1};
    return {static_cast<char>(high * 16 + low), 3};
}

std::size_t skip_slashes(std::string_view& text) noexcept {
    std::size_t count = 0;
    for (; !text.empty(); ++count) {
        const Byte byte = first_byte(text);
        if (byte.value != '/') break;
        text.remove_prefix(byte.size);
    }
    return count;
}

}  // namespace

std::optional<std::string_view> path_below(std::string_view raw, std::string_view prefix) noexcept {
    raw = raw.substr(0, raw.find_first_of("?#"));
    std::size_t slashes = 0;
    while (!prefix.empty()) {
        slashes = 0;
        if (prefix[0] == '/') {
            slashes = skip_slashes(raw);
            if (slashes == 0) return std::nullopt;
            prefix.remove_prefix(1);
            continue;
        }
        if (raw.empty()) return std::nullopt;
        const Byte byte = first_byte(raw);
        if (byte.value != prefix[0]) return std::nullopt;
        raw.remove_prefix(byte.size);
        prefix.remove_prefix(1);
    }
    if (slashes == 0 && skip_slashes(raw) == 0 && !raw.empty()) return std::nullopt;
    return raw;
}

bool matches_call(const PathSegments& path, std::string_view pattern, std::string_view& argument) noexcept {
    const PathSegments wanted = split_path(pattern);
    if (path.count != wanted.count) return false;
    for (std::size_t i = 0; i < wanted.count; ++i) {
        if (wanted.at[i] != "{}" && wanted.at[i] != path.at[i]) return false;
    }
    for (std::size_t i = 0; i < wanted.count; ++i) {
        if (wanted.at[i] == "{}") argument = path.at[i];
    }
    return true;
}

}  // namespace durable
