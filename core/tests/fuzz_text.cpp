// SPDX-License-Identifier: BSD-2-Clause
// A libFuzzer target over everything that reads foreign text; the first byte of an input chooses what is
// looked at. Built by clang++ -fsanitize=fuzzer,address,undefined from this file and core's errors,
// json_check, json_text, sse_frame, text_rules and url_text, with -lsimdjson -lcjson.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/errors.h"
#include "core/json_check.h"
#include "core/json_text.h"
#include "core/sse_frame.h"
#include "core/tests/json_recogniser.h"
#include "core/text_rules.h"
#include "core/url_text.h"

namespace durable {

namespace {

using std::string;

void expect(bool condition) {
    if (!condition) std::abort();
}

void fuzz_json_check(std::string_view input) {
    // What stands behind a text must not matter, so the input chooses that too.
    const char padding = input.empty() ? '\0' : input.back();
    const string padded = string(input) + string(kJsonPadding, padding);
    JsonCheck check(std::string_view(padded).substr(0, input.size()), padded.size());
    JsonCheck::Result result = JsonCheck::Result::more;
    while (result == JsonCheck::Result::more) result = check.step(7);
    const bool expected = JsonRecogniser(input).accepts();
    expect((result == JsonCheck::Result::valid) == expected);
    expect(is_valid_json(input) == expected);
}

void fuzz_stream_start(std::string_view input) {
    const auto start = parse_stream_start(input);
    if (!start) return;
    expect(input.empty() || JsonRecogniser(input).accepts());
    const HeadersResult result = check_stream_headers(start->headers);
    if (result.error != ErrorCode::ok) return;
    for (const auto& [name, value] : start->headers) {
        expect((name + value).find_first_of(std::string_view("\r\n\0", 3)) == string::npos);
    }
}

void fuzz_url_text(std::string_view input) {
    string again;
    append_percent_encoded(again, input);
    expect(percent_decode(again) == string(input));
    const PathSegments segments = split_path(input);
    for (std::size_t i = 0; i < segments.count; ++i) {
        if (const auto segment = percent_decode(segments.at[i])) (void)check_channel_name(*segment);
    }
    if (const auto value = find_argument(input, "t")) (void)parse_wait_timeout(*value);
    if (const auto value = find_argument(input, "")) expect(value->size() < input.size() || input.empty());
}

void fuzz_text_rules(std::string_view input) {
    const bool is_utf8 = is_valid_utf8(input);
    expect((check_published_text(input) == ErrorCode::ok) == (is_utf8 && input.size() <= kMaxText));
    expect((check_stream_text(input) == ErrorCode::ok) == (is_utf8 && input.size() <= kMaxText));
    expect((check_reason(input) == ErrorCode::ok) == (is_utf8 && input.size() <= kMaxReason));
    const bool is_event_type = check_event_type(input) == ErrorCode::ok;
    if (is_event_type) expect(input.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    if (is_event_type && input.size() <= kMaxOperationName) expect(check_operation_name(input) == ErrorCode::ok);
    (void)check_object_key(input);
    const TimeoutResult timeout = parse_wait_timeout(input);
    expect(timeout.error != ErrorCode::ok || timeout.timeout_ms <= kMaxWaitMs);
    string body;
    append_error_json(body, ErrorCode::not_found, input);
    expect(JsonRecogniser(body).accepts());
    if (!is_utf8) return;
    body.clear();
    append_json_string(body, input);
    expect(JsonRecogniser(body).accepts());
}

// The data of the one event in `frame`, as a browser reads it.
string data_of(std::string_view frame) {
    constexpr std::string_view kData = "data: ";
    string data;
    while (frame != "\n") {
        expect(frame.substr(0, kData.size()) == kData);
        const std::size_t end = frame.find('\n');
        expect(end != std::string_view::npos);
        data.append(frame.substr(kData.size(), end - kData.size())).push_back('\n');
        frame.remove_prefix(end + 1);
    }
    expect(!data.empty());
    data.pop_back();
    return data;
}

void fuzz_sse_frame(std::string_view input) {
    string frame;
    append_message_frame(frame, {}, {}, input);
    string expected;
    for (std::size_t i = 0; i < input.size(); ++i) {
        if (input[i] == '\r' && i + 1 < input.size() && input[i + 1] == '\n') continue;
        expected += input[i] == '\r' ? '\n' : input[i];
    }
    expect(frame.find('\r') == string::npos);
    expect(data_of(frame) == expected);
    frame.clear();
    append_gap_frame(frame, input, {});
    expect(frame.find('\r') == string::npos && frame.find("\n\n") == frame.size() - 2);
}

}  // namespace

}  // namespace durable

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 5) {
        case 0: durable::fuzz_json_check(input); break;
        case 1: durable::fuzz_stream_start(input); break;
        case 2: durable::fuzz_url_text(input); break;
        case 3: durable::fuzz_text_rules(input); break;
        default: durable::fuzz_sse_frame(input); break;
    }
    return 0;
}
