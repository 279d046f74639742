// SPDX-License-Identifier: BSD-2-Clause
#include "core/url_text.h"

namespace durable {

namespace {

int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

bool is_unreserved(char byte) noexcept {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out.push_back(text[at]);
            continue;
        }
        if (at + 2 >= text.size()) return std::nullopt;
        const int high = hex_value(text[at + 1]);
        const int low = hex_value(text[at + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out.push_back(static_cast<char>(high * 16 + low));
        at += 2;
    }
    return out;
}

void append_percent_encoded(std::string& out, std::string_view bytes) {
    constexpr char kHex[] = "0123456789ABCDEF";
    for (const char byte : bytes) {
        if (is_unreserved(byte)) {
            out.push_back(byte);
            continue;
        }
        const auto value = static_cast<unsigned char>(byte);
        const char escape[] = {'%', kHex[value >> 4], kHex[value & 15]};
        out.append(escape, sizeof(escape));
    }
}

PathSegments split_path(std::string_view path) noexcept {
    PathSegments segments;
    for (;;) {
        if (segments.count == kMaxPathSegments) return {};
        const std::size_t slash = path.find('/');
        segments.at[segments.count++] = path.substr(0, slash);
        if (slash == std::string_view::npos) return segments;
        path.remove_prefix(slash + 1);
    }
}

std::optional<std::string_view> find_argument(std::string_view query, std::string_view name) noexcept {
    for (;;) {
        const std::size_t end = query.find('&');
        const std::string_view argument = query.substr(0, end);
        const std::size_t equals = argument.find('=');
        if (argument.substr(0, equals) == name) {
            return equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
        }
        if (end == std::string_view::npos) return std::nullopt;
        query.remove_prefix(end + 1);
    }
}

}  // namespace durable
