// SPDX-License-Identifier: BSD-2-Clause
// The grammar of RFC 8259 byte by byte, with X-2's limit on nesting: slow, recursive and plain.
#pragma once

#include <cctype>
#include <cstddef>
#include <string_view>

namespace durable {

class JsonRecogniser {
public:
    explicit JsonRecogniser(std::string_view text) : text_(text) {}

    bool accepts() {
        skip_blank();
        if (!value(0)) return false;
        skip_blank();
        return at_ == text_.size();
    }

private:
    int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
    bool take(int byte) {
        if (peek() != byte) return false;
        ++at_;
        return true;
    }
    bool take(std::string_view word) {
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    void skip_blank() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
    }
    bool digits() {
        const std::size_t start = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ != start;
    }
    bool number() {
        take('-');
        if (!take('0') && !digits()) return false;
        if (take('.') && !digits()) return false;
        if (!take('e') && !take('E')) return true;
        if (!take('+')) take('-');
        return digits();
    }
    bool continuation(int low, int high) {
        if (peek() < low || peek() > high) return false;
        ++at_;
        return true;
    }
    bool multi_byte_character() {
        const int first = peek();
        ++at_;
        if (first >= 0xC2 && first <= 0xDF) return continuation(0x80, 0xBF);
        if (first >= 0xE0 && first <= 0xEF) {
            return continuation(first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && continuation(0x80, 0xBF);
        }
        return first >= 0xF0 && first <= 0xF4 &&
               continuation(first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && continuation(0x80, 0xBF) &&
               continuation(0x80, 0xBF);
    }
    bool escape() {
        constexpr std::string_view kEscapes = "\"\\/bfnrt";
        if (!take('u')) {
            const bool is_known = peek() >= 0 && kEscapes.find(static_cast<char>(peek())) != std::string_view::npos;
            ++at_;
            return is_known;
        }
        for (int i = 0; i < 4; ++i) {
            if (peek() < 0 || !std::isxdigit(peek())) return false;
            ++at_;
        }
        return true;
    }
    bool string_value() {
        if (!take('"')) return false;
        while (!take('"')) {
            if (peek() < 0x20) return false;
            const bool is_good = take('\\') ? escape() : peek() < 0x80 ? (++at_, true) : multi_byte_character();
            if (!is_good) return false;
        }
        return true;
    }
    bool member(int depth) {
        if (!string_value()) return false;
        skip_blank();
        if (!take(':')) return false;
        skip_blank();
        return value(depth);
    }
    bool container(int depth, char close) {
        if (depth > 1024) return false;
        skip_blank();
        if (take(close)) return true;
        for (;;) {
            skip_blank();
            if (!(close == ']' ? value(depth) : member(depth))) return false;
            skip_blank();
            if (take(close)) return true;
            if (!take(',')) return false;
        }
    }
    bool value(int depth) {
        switch (peek()) {
            case '[': ++at_; return container(depth + 1, ']');
            case '{': ++at_; return container(depth + 1, '}');
            case '"': return string_value();
            case 't': return take("true");
            case 'f': return take("false");
            case 'n': return take("null");
            default: return number();
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace durable
