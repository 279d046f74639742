// SPDX-License-Identifier: BSD-2-Clause
#include "core/sse_frame.h"

#include <algorithm>
#include <cstddef>

#include "core/errors.h"
#include "core/json_text.h"

namespace durable {

namespace {

constexpr std::string_view kData = "data: ";
constexpr std::size_t kMaxAsked = 256;  // bytes of a foreign id that are repeated to its sender

void append_field(std::string& out, std::string_view name, std::string_view value) {
    if (value.empty()) return;
    out.append(name).append(value).push_back('\n');
}

// Both searches run at memchr's speed, and each byte is seen once by either.
void append_data_lines(std::string& out, std::string_view text) {
    out.reserve(out.size() + text.size() + 64);
    std::size_t start = 0;
    std::size_t lf = std::min(text.find('\n'), text.size());
    std::size_t cr = std::min(text.find('\r'), text.size());
    for (;;) {
        const std::size_t end = std::min(lf, cr);
        out.append(kData).append(text.data() + start, end - start).push_back('\n');
        if (end == text.size()) return;
        const bool is_pair = end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n';
        start = end + (is_pair ? 2 : 1);
        if (lf < start) lf = std::min(text.find('\n', start), text.size());
        if (cr < start) cr = std::min(text.find('\r', start), text.size());
    }
}

}  // namespace

void append_message_frame(std::string& out, std::string_view id, std::string_view event, std::string_view text) {
    append_field(out, "id: ", id);
    append_field(out, "event: ", event);
    append_data_lines(out, text);
    out.push_back('\n');
}

void append_json_message_frame(std::string& out, std::string_view id, std::string_view channel, std::string_view event,
                               std::string_view text) {
    append_field(out, "id: ", id);
    append_field(out, "event: ", event);
    out.append(kData).append(R"({"channel":)");
    append_json_string(out, channel);
    out.append(R"(,"event":)");
    if (event.empty()) {
        out.append("null");
    } else {
        append_json_string(out, event);
    }
    out.append(R"(,"text":)");
    append_json_string(out, text);
    out.append("}\n\n");
}

void append_close_frame(std::string& out, std::string_view reason) {
    append_message_frame(out, {}, "durable-close", reason);
}

void append_backlog_frame(std::string& out) {
    // A reader ignores an event without data.
    append_message_frame(out, {}, "durable-backlog", kBacklogReason);
}

void append_gap_frame(std::string& out, std::string_view asked, std::string_view next) {
    out.append("event: durable-gap\n").append(kData).append(R"({"asked":")");
    append_json_untrusted(out, asked, kMaxAsked);
    out.append(R"(","next":)");
    if (next.empty()) {
        out.append("null");
    } else {
        append_json_string(out, next);
    }
    out.append("}\n\n");
}

void append_retry(std::string& out, std::uint64_t retry_ms) {
    out.append("retry: ").append(std::to_string(retry_ms)).append("\n\n");
}

void append_comment(std::string& out, std::string_view text) { out.append(": ").append(text).append("\n\n"); }

}  // namespace durable
