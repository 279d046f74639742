// SPDX-License-Identifier: BSD-2-Clause
#include "core/es_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "core/json_check.h"
#include "core/text_rules.h"

namespace durable {
namespace {

constexpr std::uint64_t kMaxArrayIndex = 4294967294U;  // ECMA-262: 2^32 - 2

bool is_digit(char byte) noexcept { return byte >= '0' && byte <= '9'; }
bool is_space(char byte) noexcept { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

void append_wtf8(std::string& out, std::uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
        out += static_cast<char>(0x80 | (code & 0x3F));
    } else {
        out += static_cast<char>(0xF0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
        out += static_cast<char>(0x80 | (code & 0x3F));
    }
}

// Reads one code point of valid WTF-8.
std::uint32_t take_code_point(std::string_view text, std::size_t& at) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    const std::uint32_t first = byte(at);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    std::uint32_t code = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length && at + i < text.size(); ++i) code = code << 6 | (byte(at + i) & 0x3F);
    at += length;
    return code;
}

std::optional<std::uint64_t> array_index(std::string_view name) noexcept {
    if (name.empty() || name.size() > 10 || (name.size() > 1 && name[0] == '0')) return std::nullopt;
    if (!std::all_of(name.begin(), name.end(), is_digit)) return std::nullopt;
    std::uint64_t index = 0;
    std::from_chars(name.data(), name.data() + name.size(), index);
    return index <= kMaxArrayIndex ? std::optional(index) : std::nullopt;
}

using Members = std::vector<std::pair<std::string, EsValue>>;

// Index-like names first, ascending; the others keep the order in which they first stood.
void order_members(Members& members) {
    std::stable_sort(members.begin(), members.end(), [](const auto& left, const auto& right) {
        const auto left_index = array_index(left.first);
        const auto right_index = array_index(right.first);
        if (left_index && right_index) return *left_index < *right_index;
        return left_index.has_value() && !right_index.has_value();
    });
}

// What a number means that no double can hold: the sign of its decimal exponent tells too large from too small.
double out_of_range_number(std::string_view text) noexcept {
    const bool is_negative = text[0] == '-';
    if (is_negative) text.remove_prefix(1);
    const std::size_t exponent_at = text.find_first_of("eE");
    const std::string_view mantissa = text.substr(0, exponent_at);
    const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
    const std::size_t first = std::min(mantissa.find_first_of("123456789"), mantissa.size());
    double exponent = static_cast<double>(point) - static_cast<double>(first);
    if (exponent_at != std::string_view::npos) {
        double written = 0;
        std::string_view digits = text.substr(exponent_at + 1);
        const bool is_small = digits[0] == '-';
        if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
        for (const char digit : digits) written = std::min(written * 10 + (digit - '0'), 1e15);
        exponent += is_small ? -written : written;
    }
    const double magnitude = exponent > 0 ? std::numeric_limits<double>::infinity() : 0.0;
    return is_negative ? -magnitude : magnitude;
}

class Parser {
public:
    explicit Parser(std::string_view text) noexcept : text_(text) {}

    bool parse_document(EsValue& value) {
        if (!parse_value(value, 1)) return false;
        skip_space();
        return at_ == text_.size();
    }

private:
    void skip_space() noexcept {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }

    bool take(char wanted) noexcept {
        skip_space();
        if (at_ >= text_.size() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }

    bool take_word(std::string_view word) noexcept {
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    bool parse_value(EsValue& value, std::size_t depth) {
        skip_space();
        if (at_ >= text_.size() || depth > kMaxJsonDepth) return false;
        const std::size_t start = at_;
        if (!parse_any(value, depth)) return false;
        value.source = text_.substr(start, at_ - start);
        return true;
    }

    bool parse_any(EsValue& value, std::size_t depth) {
        switch (text_[at_]) {
            case '{': return parse_object(value, depth);
            case '[': return parse_array(value, depth);
            case '"': value.type = EsValue::Type::string; return parse_string(value.text);
            case 'n': return take_word("null");
            case 't': value.boolean = true; [[fallthrough]];
            case 'f': value.type = EsValue::Type::boolean; return take_word(value.boolean ? "true" : "false");
            default: return parse_number(value);
        }
    }

    bool parse_array(EsValue& value, std::size_t depth) {
        value.type = EsValue::Type::array;
        ++at_;
        if (take(']')) return true;
        do {
            if (!parse_value(value.items.emplace_back(), depth + 1)) return false;
        } while (take(','));
        return take(']');
    }

    bool parse_object(EsValue& value, std::size_t depth) {
        value.type = EsValue::Type::object;
        std::unordered_map<std::string, std::size_t> positions;
        ++at_;
        if (take('}')) return true;
        do {
            std::string name;
            EsValue member;
            skip_space();
            if (at_ >= text_.size() || text_[at_] != '"' || !parse_string(name)) return false;
            if (!take(':') || !parse_value(member, depth + 1)) return false;
            const auto [known, is_new] = positions.emplace(name, value.members.size());
            if (is_new) {
                value.members.emplace_back(std::move(name), std::move(member));
            } else {
                value.members[known->second].second = std::move(member);
            }
        } while (take(','));
        order_members(value.members);
        return take('}');
    }

    bool parse_number(EsValue& value) noexcept {
        const std::size_t start = at_;
        if (at_ < text_.size() && text_[at_] == '-') ++at_;
        if (at_ < text_.size() && text_[at_] == '0') {
            ++at_;
        } else if (!take_digits()) {
            return false;
        }
        if (at_ < text_.size() && text_[at_] == '.' && (++at_, !take_digits())) return false;
        if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
            ++at_;
            if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
            if (!take_digits()) return false;
        }
        const std::string_view number = text_.substr(start, at_ - start);
        value.type = EsValue::Type::number;
        const auto result = std::from_chars(number.data(), number.data() + number.size(), value.number);
        if (result.ec == std::errc::result_out_of_range) value.number = out_of_range_number(number);
        return true;
    }

    bool take_digits() noexcept {
        const std::size_t start = at_;
        while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
        return at_ > start;
    }

    bool parse_string(std::string& out) {
        ++at_;
        while (at_ < text_.size()) {
            const char byte = text_[at_++];
            if (byte == '"') return true;
            if (static_cast<unsigned char>(byte) < 0x20) return false;
            if (byte != '\\') {
                out += byte;
            } else if (!parse_escape(out)) {
                return false;
            }
        }
        return false;
    }

    bool parse_escape(std::string& out) {
        constexpr std::string_view kEscapes = "\"\\/bfnrt";
        constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
        if (at_ >= text_.size()) return false;
        const char kind = text_[at_++];
        if (kind != 'u') {
            const std::size_t index = kEscapes.find(kind);
            if (index == std::string_view::npos) return false;
            out += kMeanings[index];
            return true;
        }
        std::uint32_t code = 0;
        if (!parse_hex(code)) return false;
        if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
            const std::size_t after_first = at_;
            std::uint32_t low = 0;
            at_ += 2;
            if (!parse_hex(low)) return false;
            if (low >= 0xDC00 && low < 0xE000) {
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            } else {
                at_ = after_first;
            }
        }
        append_wtf8(out, code);
        return true;
    }

    bool parse_hex(std::uint32_t& code) noexcept {
        if (text_.size() - at_ < 4) return false;
        const char* start = text_.data() + at_;
        const auto result = std::from_chars(start, start + 4, code, 16);
        at_ += 4;
        return result.ec == std::errc() && result.ptr == start + 4;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

void append_unicode_escape(std::string& out, std::uint32_t code) {
    constexpr char kHex[] = "0123456789abcdef";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[code >> shift & 15];
}

void append_value(std::string& out, const EsValue& value) {
    switch (value.type) {
        case EsValue::Type::null: out += "null"; return;
        case EsValue::Type::boolean: out += value.boolean ? "true" : "false"; return;
        case EsValue::Type::number: append_es_number(out, value.number); return;
        case EsValue::Type::string: append_es_string(out, value.text); return;
        case EsValue::Type::array: break;
        case EsValue::Type::object: break;
    }
    const bool is_array = value.type == EsValue::Type::array;
    out += is_array ? '[' : '{';
    bool is_first = true;
    const auto separate = [&] {
        if (!is_first) out += ',';
        is_first = false;
    };
    for (const EsValue& item : value.items) {
        separate();
        append_value(out, item);
    }
    for (const auto& [name, member] : value.members) {
        separate();
        append_es_string(out, name);
        out += ':';
        append_value(out, member);
    }
    out += is_array ? ']' : '}';
}

}  // namespace

const EsValue* EsValue::find(std::string_view name) const noexcept {
    for (const auto& [member_name, member] : members) {
        if (member_name == name) return &member;
    }
    return nullptr;
}

std::optional<EsValue> parse_es_json(std::string_view text) {
    if (!is_valid_utf8(text)) return std::nullopt;
    EsValue value;
    return Parser(text).parse_document(value) ? std::optional(std::move(value)) : std::nullopt;
}

std::string write_es_json(const EsValue& value) {
    std::string out;
    append_value(out, value);
    return out;
}

void append_es_string(std::string& out, std::string_view wtf8) {
    constexpr std::string_view kPlain = "\"\\\b\f\n\r\t";
    constexpr std::string_view kEscapes = "\"\\bfnrt";
    out += '"';
    for (std::size_t at = 0; at < wtf8.size();) {
        const auto byte = static_cast<unsigned char>(wtf8[at]);
        const std::size_t special = kPlain.find(wtf8[at]);
        if (special != std::string_view::npos) {
            out += '\\';
            out += kEscapes[special];
            ++at;
        } else if (byte < 0x20) {
            append_unicode_escape(out, byte);
            ++at;
        } else if (byte == 0xED && at + 1 < wtf8.size() && static_cast<unsigned char>(wtf8[at + 1]) >= 0xA0) {
            append_unicode_escape(out, take_code_point(wtf8, at));
        } else {
            out += wtf8[at++];
        }
    }
    out += '"';
}

void append_es_number(std::string& out, double number) {
    if (!std::isfinite(number)) {
        out += "null";
        return;
    }
    if (number == 0) number = 0;  // -0 is written as 0
    if (number < 0) out += '-';
    char buffer[32];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, std::fabs(number), std::chars_format::scientific);
    const std::string_view written(buffer, static_cast<std::size_t>(result.ptr - buffer));
    const std::size_t exponent_at = written.find('e');
    std::string digits(written.substr(0, exponent_at));
    digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
    int exponent = 0;
    const std::size_t exponent_digits = exponent_at + (written[exponent_at + 1] == '+' ? 2 : 1);
    std::from_chars(written.data() + exponent_digits, written.data() + written.size(), exponent);

    // ECMA-262, Number::toString: `count` digits, the decimal point after the n-th.
    const int count = static_cast<int>(digits.size());
    const int n = exponent + 1;
    if (count <= n && n <= 21) {
        out += digits + std::string(static_cast<std::size_t>(n - count), '0');
    } else if (0 < n && n <= 21) {
        out += digits.insert(static_cast<std::size_t>(n), 1, '.');
    } else if (-6 < n && n <= 0) {
        out += "0." + std::string(static_cast<std::size_t>(-n), '0') + digits;
    } else {
        if (count > 1) digits.insert(1, 1, '.');
        out += digits + (exponent < 0 ? "e-" : "e+") + std::to_string(std::abs(exponent));
    }
}

std::string compact_json(std::string_view json) {
    std::string out;
    out.reserve(json.size());
    bool is_in_string = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char byte = json[at];
        if (!is_in_string && is_space(byte)) continue;
        out += byte;
        if (byte == '"') is_in_string = !is_in_string;
        if (byte == '\\' && at + 1 < json.size()) out += json[++at];
    }
    return out;
}

bool utf16_less(std::string_view left, std::string_view right) noexcept {
    // Supplementary characters begin with a surrogate, so they stand before U+E000 to U+FFFF.
    const auto rank = [](std::uint32_t code) { return code >= 0xE000 && code < 0x10000 ? code + 0x200000 : code; };
    std::size_t left_at = 0;
    std::size_t right_at = 0;
    while (left_at < left.size() && right_at < right.size()) {
        const std::uint32_t left_code = take_code_point(left, left_at);
        const std::uint32_t right_code = take_code_point(right, right_at);
        if (left_code != right_code) return rank(left_code) < rank(right_code);
    }
    return left_at >= left.size() && right_at < right.size();
}

}  // namespace durable
