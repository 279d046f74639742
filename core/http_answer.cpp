// SPDX-License-Identifier: BSD-2-Clause
#include "core/http_answer.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace durable {
namespace {

constexpr std::string_view kLastChunk = "\r\n0\r\n\r\n";

bool equals_ignoring_case(std::string_view left, std::string_view right) noexcept {
    return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(), [](char a, char b) {
               return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
           });
}

std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

}  // namespace

HttpAnswer::State HttpAnswer::feed(std::string_view bytes) {
    if (has_head_) return read_body(bytes);
    head_ += bytes;
    return read_head();
}

HttpAnswer::State HttpAnswer::read_head() {
    for (;;) {
        const std::size_t end = head_.find("\r\n\r\n");
        if (end == std::string::npos) return head_.size() > max_head_ ? State::broken : State::more;
        const std::string head = head_.substr(0, end + 2);
        const std::string rest = head_.substr(end + 4);
        std::size_t line_end = head.find("\r\n");
        if (!read_status_line(std::string_view(head).substr(0, line_end))) return State::broken;
        if (status_ < 200) {
            status_ = 0;
            head_ = rest;
            continue;
        }
        while (line_end + 2 < head.size()) {
            const std::size_t start = line_end + 2;
            line_end = head.find("\r\n", start);
            read_header(std::string_view(head).substr(start, line_end - start));
        }
        has_head_ = true;
        if (status_ == 204 || status_ == 304) return State::complete;
        // A chunked body that is empty begins with its last chunk: the line end before it is the head's.
        tail_ = "\r\n";
        return read_body(rest);
    }
}

bool HttpAnswer::read_status_line(std::string_view line) {
    if (line.size() < 12 || line.substr(0, 7) != "HTTP/1." || line[8] != ' ') return false;
    const auto result = std::from_chars(line.data() + 9, line.data() + 12, status_);
    const bool is_status = result.ptr == line.data() + 12 && status_ >= 100 && (line.size() == 12 || line[12] == ' ');
    if (!is_status) status_ = 0;
    return is_status;
}

void HttpAnswer::read_header(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (equals_ignoring_case(name, "retry-after")) {
        retry_after_ = value;
    } else if (equals_ignoring_case(name, "transfer-encoding")) {
        is_chunked_ = true;
    } else if (equals_ignoring_case(name, "content-length")) {
        has_length_ = std::from_chars(value.data(), value.data() + value.size(), length_).ec == std::errc();
    }
}

HttpAnswer::State HttpAnswer::read_body(std::string_view bytes) {
    read_ += bytes.size();
    if (read_ >= max_body_) return State::complete;
    if (!is_chunked_) return has_length_ && read_ >= length_ ? State::complete : State::more;
    tail_ += bytes;
    if (tail_.size() > kLastChunk.size()) tail_.erase(0, tail_.size() - kLastChunk.size());
    return tail_ == kLastChunk ? State::complete : State::more;
}

}  // namespace durable
