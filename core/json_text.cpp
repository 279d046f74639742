// SPDX-License-Identifier: BSD-2-Clause
#include "core/json_text.h"

#include <cjson/cJSON.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "core/json_check.h"

namespace durable {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

bool must_be_escaped(unsigned char byte) noexcept { return byte < 0x20 || byte == '"' || byte == '\\'; }

// Whether one of eight bytes must be escaped. The high bit of a byte of `word - n * kOnes` is set
// where that byte is below n, `~word` leaves out bytes from 0x80 on; a borrow can only come out of a
// byte that itself is a hit.
bool any_must_be_escaped(std::uint64_t word) noexcept {
    constexpr std::uint64_t kOnes = 0x0101010101010101u;
    constexpr std::uint64_t kHighs = 0x8080808080808080u;
    const std::uint64_t quote = word ^ (kOnes * '"');
    const std::uint64_t backslash = word ^ (kOnes * '\\');
    const std::uint64_t below = (word - kOnes * 0x20) & ~word;
    return ((below | ((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash)) & kHighs) != 0;
}

// The position of the first byte from `at` on that must be escaped.
std::size_t find_escape(std::string_view text, std::size_t at) noexcept {
    for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word;
        std::memcpy(&word, text.data() + at, sizeof(word));
        if (any_must_be_escaped(word)) break;
    }
    while (at < text.size() && !must_be_escaped(static_cast<unsigned char>(text[at]))) ++at;
    return at;
}

void append_escape(std::string& out, char byte) {
    constexpr char kHex[] = "0123456789abcdef";
    switch (byte) {
        case '"': out.append("\\\""); return;
        case '\\': out.append("\\\\"); return;
        case '\b': out.append("\\b"); return;
        case '\f': out.append("\\f"); return;
        case '\n': out.append("\\n"); return;
        case '\r': out.append("\\r"); return;
        case '\t': out.append("\\t"); return;
        default: break;
    }
    const auto value = static_cast<unsigned char>(byte);
    const char escape[] = {'\\', 'u', '0', '0', kHex[value >> 4], kHex[value & 15]};
    out.append(escape, sizeof(escape));
}

void append_escaped(std::string& out, std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t stop = find_escape(text, at);
        out.append(text.data() + at, stop - at);
        if (stop < text.size()) append_escape(out, text[stop]);
        at = stop + 1;
    }
}

// The size of the valid UTF-8 character that `text` begins with, 0 if there is none (RFC 3629, 4).
std::size_t character_size(std::string_view text) noexcept {
    const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return 0;
    const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (text.size() < size) return 0;
    for (std::size_t at = 1; at < size; ++at) {
        if ((byte(at) & 0xC0) != 0x80) return 0;
    }
    const unsigned second = byte(1);
    const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool is_surrogate = first == 0xED && second >= 0xA0;
    const bool is_past_the_last = first == 0xF4 && second >= 0x90;
    return is_overlong || is_surrogate || is_past_the_last ? 0 : size;
}

struct CjsonDeleter {
    void operator()(cJSON* json) const noexcept { cJSON_Delete(json); }
};
using CjsonDocument = std::unique_ptr<cJSON, CjsonDeleter>;

int whole_number(double value) noexcept {
    constexpr double kLargest = std::numeric_limits<int>::max();
    return value >= 0 && value <= kLargest && value == std::floor(value) ? static_cast<int>(value) : -1;
}

bool read_headers(const cJSON& array, StreamStart& start) {
    start.headers.clear();
    const cJSON* pair = nullptr;
    cJSON_ArrayForEach(pair, &array) {
        if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2) return false;
        const cJSON* name = pair->child;
        const cJSON* value = name->next;
        if (!cJSON_IsString(name) || !cJSON_IsString(value)) return false;
        start.headers.emplace_back(name->valuestring, value->valuestring);
    }
    return true;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out.push_back('"');
    append_escaped(out, text);
    out.push_back('"');
}

void append_json_untrusted(std::string& out, std::string_view bytes, std::size_t max_bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
        const std::size_t size = character_size(bytes.substr(at));
        const std::size_t taken = size == 0 ? 1 : size;
        if (at + taken > max_bytes) {
            out.append(kEllipsis);
            return;
        }
        if (size == 0) {
            out.append(kReplacement);
        } else {
            append_escaped(out, bytes.substr(at, size));
        }
        at += taken;
    }
}

std::optional<StreamStart> parse_stream_start(std::string_view body) {
    StreamStart start;
    if (body.empty()) return start;
    if (!is_valid_json(body) || has_nul_escape(body)) return std::nullopt;
    const CjsonDocument document(cJSON_ParseWithLength(body.data(), body.size()));
    if (document == nullptr || !cJSON_IsObject(document.get())) return std::nullopt;
    const cJSON* member = nullptr;
    cJSON_ArrayForEach(member, document.get()) {
        const std::string_view name = member->string;
        if (name == "status") {
            if (!cJSON_IsNumber(member)) return std::nullopt;
            start.status = whole_number(member->valuedouble);
        } else if (name == "headers") {
            if (!cJSON_IsArray(member) || !read_headers(*member, start)) return std::nullopt;
        }
    }
    return start;
}

bool has_nul_escape(std::string_view json) noexcept {
    for (std::size_t at = json.find('\\'); at != std::string_view::npos; at = json.find('\\', at + 2)) {
        if (json.substr(at + 1, 5) == "u0000") return true;
    }
    return false;
}

}  // namespace durable
