// SPDX-License-Identifier: BSD-2-Clause
// Reads an HTTP/1.1 answer (RFC 9112) as far as a webhook needs it: the status, Retry-After, and where the answer ends.
// Interim (1xx) answers are skipped. Pure: it is fed bytes in pieces of any size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace durable {

class HttpAnswer {
public:
    enum class State : std::uint8_t { more, complete, broken };

    // An answer whose head is larger is broken; one whose body is larger counts as complete.
    HttpAnswer(std::size_t max_head, std::size_t max_body) noexcept : max_head_(max_head), max_body_(max_body) {}

    State feed(std::string_view bytes);

    int status() const noexcept { return status_; }  // 0 until the head is there
    const std::string& retry_after() const noexcept { return retry_after_; }

private:
    State read_head();
    bool read_status_line(std::string_view line);
    void read_header(std::string_view line);
    State read_body(std::string_view bytes);

    std::size_t max_head_;
    std::size_t max_body_;
    std::string head_;
    std::string tail_;  // the last bytes of a chunked body
    bool has_head_ = false;
    bool is_chunked_ = false;
    bool has_length_ = false;
    std::uint64_t length_ = 0;
    std::uint64_t read_ = 0;
    int status_ = 0;
    std::string retry_after_;
};

}  // namespace durable
