// SPDX-License-Identifier: BSD-2-Clause
// Each syntactic rule at its boundaries.
#include "core/text_rules.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <cctype>
#include <string>

namespace CppUnit {

// A failure names the refusal.
template <>
struct assertion_traits<durable::ErrorCode> {
    static bool equal(durable::ErrorCode a, durable::ErrorCode b) { return a == b; }
    static std::string toString(durable::ErrorCode error) {
        return std::to_string(static_cast<unsigned>(error)) + " " + std::string(durable::error_info(error).code);
    }
};

}  // namespace CppUnit

namespace durable {

namespace {

using std::string;
using Headers = std::vector<std::pair<string, string>>;

constexpr auto kOk = ErrorCode::ok;

string repeated(std::string_view part, std::size_t count) {
    string out;
    for (std::size_t i = 0; i < count; ++i) out += part;
    return out;
}

void assert_timeout(std::uint32_t expected_ms, std::string_view text) {
    const TimeoutResult result = parse_wait_timeout(text);
    CPPUNIT_ASSERT_EQUAL(kOk, result.error);
    CPPUNIT_ASSERT_EQUAL(expected_ms, result.timeout_ms);
}

ErrorCode timeout_error(std::string_view text) { return parse_wait_timeout(text).error; }

ErrorCode header_error(const string& name, const string& value = "v") {
    return check_stream_headers({{name, value}}).error;
}

}  // namespace

class TextRulesTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(TextRulesTest);
    CPPUNIT_TEST(channel_names_of_1_and_64_bytes_are_accepted);
    CPPUNIT_TEST(channel_names_of_0_and_65_bytes_are_refused);
    CPPUNIT_TEST(channel_names_hold_only_their_64_and_two_bytes);
    CPPUNIT_TEST(dot_names_are_channel_names);
    CPPUNIT_TEST(texts_of_0_and_65536_bytes_are_accepted);
    CPPUNIT_TEST(text_of_65537_bytes_is_refused);
    CPPUNIT_TEST(text_is_measured_in_bytes);
    CPPUNIT_TEST(text_that_begins_with_ff_is_refused);
    CPPUNIT_TEST(text_that_is_too_large_is_refused_for_that_first);
    CPPUNIT_TEST(text_with_nul_and_line_ends_is_accepted);
    CPPUNIT_TEST(text_that_is_not_utf8_is_refused);
    CPPUNIT_TEST(last_and_first_valid_characters_are_accepted);
    CPPUNIT_TEST(stream_writes_have_the_same_limits_and_their_own_message);
    CPPUNIT_TEST(stream_write_may_not_split_a_character);
    CPPUNIT_TEST(reasons_of_0_and_1024_bytes_are_accepted);
    CPPUNIT_TEST(reason_of_1025_bytes_is_refused);
    CPPUNIT_TEST(reason_that_is_not_utf8_is_refused);
    CPPUNIT_TEST(timeouts_from_0_to_3600000_are_accepted);
    CPPUNIT_TEST(timeouts_past_3600000_are_refused);
    CPPUNIT_TEST(timeouts_that_are_not_digits_are_refused);
    CPPUNIT_TEST(missing_and_empty_timeouts_are_refused);
    CPPUNIT_TEST(event_types_of_1_and_256_bytes_are_accepted);
    CPPUNIT_TEST(event_types_of_0_and_257_bytes_are_refused);
    CPPUNIT_TEST(event_type_with_a_control_character_is_refused);
    CPPUNIT_TEST(event_type_of_our_own_prefix_is_refused);
    CPPUNIT_TEST(statuses_200_to_299_but_two_are_accepted);
    CPPUNIT_TEST(thirty_two_headers_are_accepted_and_one_more_is_refused);
    CPPUNIT_TEST(header_names_of_1_and_64_bytes_are_accepted);
    CPPUNIT_TEST(header_names_of_0_and_65_bytes_are_refused);
    CPPUNIT_TEST(header_name_is_a_token);
    CPPUNIT_TEST(header_value_holds_tab_and_printable_ascii_only);
    CPPUNIT_TEST(header_values_of_0_and_8192_bytes_are_accepted);
    CPPUNIT_TEST(header_value_of_8193_bytes_is_refused);
    CPPUNIT_TEST(header_given_twice_in_any_case_is_refused);
    CPPUNIT_TEST(forbidden_headers_are_refused_in_any_case);
    CPPUNIT_TEST(names_that_only_look_forbidden_are_accepted);
    CPPUNIT_TEST(refused_header_is_pointed_at);
    CPPUNIT_TEST(operation_names_of_1_and_128_bytes_are_accepted);
    CPPUNIT_TEST(operation_names_of_0_and_129_bytes_are_refused);
    CPPUNIT_TEST(operation_name_is_text);
    CPPUNIT_TEST(object_keys_of_1_and_512_bytes_are_accepted);
    CPPUNIT_TEST(object_keys_of_0_and_513_bytes_are_refused);
    CPPUNIT_TEST_SUITE_END();

public:
    // C-1
    void channel_names_of_1_and_64_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_channel_name("c"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_channel_name(string(64, 'c')));
    }
    void channel_names_of_0_and_65_bytes_are_refused() {  // C-1
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_channel, check_channel_name(""));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_channel, check_channel_name(string(65, 'c')));
    }
    void channel_names_hold_only_their_64_and_two_bytes() {  // C-1
        const string allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
        for (int byte = 0; byte < 256; ++byte) {
            const string name = string("a") + static_cast<char>(byte) + "b";
            const bool is_allowed = allowed.find(static_cast<char>(byte)) != string::npos;
            CPPUNIT_ASSERT_EQUAL(is_allowed ? kOk : ErrorCode::invalid_channel, check_channel_name(name));
        }
    }
    void dot_names_are_channel_names() {  // C-1
        CPPUNIT_ASSERT_EQUAL(kOk, check_channel_name("."));
        CPPUNIT_ASSERT_EQUAL(kOk, check_channel_name(".."));
    }

    // C-4
    void texts_of_0_and_65536_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_published_text(""));
        CPPUNIT_ASSERT_EQUAL(kOk, check_published_text(string(65536, 'x')));
    }
    void text_of_65537_bytes_is_refused() {  // C-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::channel_text_too_large, check_published_text(string(65537, 'x')));
    }
    void text_is_measured_in_bytes() {  // C-4
        CPPUNIT_ASSERT_EQUAL(kOk, check_published_text(repeated("é", 32768)));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::channel_text_too_large, check_published_text(repeated("é", 32768) + "x"));
    }
    void text_that_begins_with_ff_is_refused() {  // C-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_starts_with_ff, check_published_text("\xFF"));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_starts_with_ff, check_published_text("\xFFhello"));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_published_text("\xFEhello"));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_published_text("hello\xFF"));
    }
    void text_that_is_too_large_is_refused_for_that_first() {  // C-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::channel_text_too_large, check_published_text("\xFF" + string(65536, 'x')));
    }
    void text_with_nul_and_line_ends_is_accepted() {  // C-27a
        CPPUNIT_ASSERT_EQUAL(kOk, check_published_text(string("\0a\r\n\0", 5)));
    }
    void text_that_is_not_utf8_is_refused() {  // C-4
        for (const char* text :
             {"\x80", "a\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
              "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82",
              "\xF0\x9F\x98", "\xC3(", "\xE2(\xA1", "\xE2\x82(", "\xF0(\x8C\xBC", "\xF8\x88\x80\x80\x80"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_published_text(text));
            CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_published_text(string(61, 'x') + text));
        }
    }
    void last_and_first_valid_characters_are_accepted() {  // C-4
        for (const char* text : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                 "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
            CPPUNIT_ASSERT_EQUAL(kOk, check_published_text(text));
        }
    }

    // S-10
    void stream_writes_have_the_same_limits_and_their_own_message() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_stream_text(""));
        CPPUNIT_ASSERT_EQUAL(kOk, check_stream_text(string(65536, 'x')));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::stream_text_too_large, check_stream_text(string(65537, '\xFF')));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_stream_text("\xFF"));
    }
    void stream_write_may_not_split_a_character() {  // S-10
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_stream_text("data: \xE6\x94"));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_stream_text("\xB6\n\n"));
    }

    // C-5, S-19
    void reasons_of_0_and_1024_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_reason(""));
        CPPUNIT_ASSERT_EQUAL(kOk, check_reason(string(1024, 'x')));
    }
    void reason_of_1025_bytes_is_refused() {  // C-5, S-19
        CPPUNIT_ASSERT_EQUAL(ErrorCode::reason_too_large, check_reason(string(1025, 'x')));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::reason_too_large, check_reason(repeated("收", 342)));
    }
    void reason_that_is_not_utf8_is_refused() {  // C-5
        CPPUNIT_ASSERT_EQUAL(ErrorCode::text_not_utf8, check_reason("\xFF"));
    }

    // C-6
    void timeouts_from_0_to_3600000_are_accepted() {
        assert_timeout(0, "0");
        assert_timeout(200, "200");
        assert_timeout(3600000, "3600000");
        assert_timeout(7, "0000000000000000007");
    }
    void timeouts_past_3600000_are_refused() {  // C-6
        for (const char* text : {"3600001", "36000000", "4294967296", "4294967297", "18446744073709551616",
                                 "99999999999999999999999999999999999999"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_timeout, timeout_error(text));
        }
    }
    void timeouts_that_are_not_digits_are_refused() {  // C-6
        for (const char* text : {"-1", "+1", "-0", " 1", "1 ", "1.0", "1e3", "0x10", "1,000", "abc", "１", "1\n"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_timeout, timeout_error(text));
        }
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_timeout, timeout_error(std::string_view("1\0", 2)));
    }
    void missing_and_empty_timeouts_are_refused() {  // C-6
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_timeout, parse_wait_timeout(std::nullopt).error);
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_timeout, timeout_error(""));
    }

    void event_types_of_1_and_256_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type("x"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type(string(256, 'x')));
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type("收摊 : é \xC2\xA0"));
    }
    void event_types_of_0_and_257_bytes_are_refused() {
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type, check_event_type(""));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type, check_event_type(string(257, 'x')));
    }
    void event_type_with_a_control_character_is_refused() {
        for (int byte = 0; byte < 0x20; ++byte) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type,
                                 check_event_type(string("a") + static_cast<char>(byte)));
        }
        for (const char* type : {"\x7F", "a\xC2\x80", "a\xC2\x85", "\xC2\x9F", "\xFF", "\xC2"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type, check_event_type(type));
        }
    }
    void event_type_of_our_own_prefix_is_refused() {
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type, check_event_type("durable-"));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_event_type, check_event_type("durable-close"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type("durable"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type("Durable-close"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_event_type("a durable-close"));
    }

    // S-2
    void statuses_200_to_299_but_two_are_accepted() {
        for (int status = -1; status <= 600; ++status) {
            const bool is_valid = status >= 200 && status <= 299 && status != 204 && status != 205;
            CPPUNIT_ASSERT_EQUAL(is_valid ? kOk : ErrorCode::invalid_status, check_stream_status(status));
        }
    }

    // S-4
    void thirty_two_headers_are_accepted_and_one_more_is_refused() {
        Headers headers;
        for (int i = 0; i < 32; ++i) headers.emplace_back("X-" + std::to_string(i), "v");
        CPPUNIT_ASSERT_EQUAL(kOk, check_stream_headers(headers).error);
        headers.emplace_back("X-32", "v");
        CPPUNIT_ASSERT_EQUAL(ErrorCode::too_many_headers, check_stream_headers(headers).error);
    }
    void header_names_of_1_and_64_bytes_are_accepted() {  // S-4
        CPPUNIT_ASSERT_EQUAL(kOk, header_error("X"));
        CPPUNIT_ASSERT_EQUAL(kOk, header_error(string(64, 'x')));
        CPPUNIT_ASSERT_EQUAL(kOk, check_stream_headers({}).error);
    }
    void header_names_of_0_and_65_bytes_are_refused() {  // S-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_header_name, header_error(""));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_header_name, header_error(string(65, 'x')));
    }
    void header_name_is_a_token() {  // S-4, RFC 9110
        const string token = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        for (int byte = 0; byte < 256; ++byte) {
            const bool is_token = token.find(static_cast<char>(byte)) != string::npos;
            CPPUNIT_ASSERT_EQUAL(is_token ? kOk : ErrorCode::invalid_header_name,
                                 header_error(string("x") + static_cast<char>(byte)));
        }
    }
    void header_value_holds_tab_and_printable_ascii_only() {  // S-4
        for (int byte = 0; byte < 256; ++byte) {
            const bool is_allowed = byte == 0x09 || (byte >= 0x20 && byte <= 0x7E);
            CPPUNIT_ASSERT_EQUAL(is_allowed ? kOk : ErrorCode::invalid_header_value,
                                 header_error("X", string("a") + static_cast<char>(byte)));
        }
    }
    void header_values_of_0_and_8192_bytes_are_accepted() {  // S-4
        CPPUNIT_ASSERT_EQUAL(kOk, header_error("X", ""));
        CPPUNIT_ASSERT_EQUAL(kOk, header_error("X", string(8192, 'v')));
    }
    void header_value_of_8193_bytes_is_refused() {  // S-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_header_value, header_error("X", string(8193, 'v')));
    }
    void header_given_twice_in_any_case_is_refused() {  // S-4
        CPPUNIT_ASSERT_EQUAL(ErrorCode::duplicate_header,
                             check_stream_headers({{"X-One", "1"}, {"X-Two", "2"}, {"x-oNE", "3"}}).error);
        CPPUNIT_ASSERT_EQUAL(kOk, check_stream_headers({{"X-One", "1"}, {"X-Onee", "1"}}).error);
    }
    void forbidden_headers_are_refused_in_any_case() {  // S-5
        for (string name : {"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "TE",
                            "Trailer", "Content-Type", "Content-Encoding", "Set-Cookie", "Set-Cookie2"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::forbidden_header, header_error(name));
            for (char& byte : name) byte = static_cast<char>(std::toupper(byte));
            CPPUNIT_ASSERT_EQUAL(ErrorCode::forbidden_header, header_error(name));
            for (char& byte : name) byte = static_cast<char>(std::tolower(byte));
            CPPUNIT_ASSERT_EQUAL(ErrorCode::forbidden_header, header_error(name));
        }
    }
    void names_that_only_look_forbidden_are_accepted() {  // S-5, S-3
        for (const char* name : {"T", "TEE", "Trailers", "Content-Typ", "Set-Cookie3", "Cache-Control",
                                 "Content-Language", "Retry-After"}) {
            CPPUNIT_ASSERT_EQUAL(kOk, header_error(name));
        }
    }
    void refused_header_is_pointed_at() {  // S-4, S-5
        const auto result = check_stream_headers({{"X", "1"}, {"Y", "2"}, {"Upgrade", "h2c"}, {"", ""}});
        CPPUNIT_ASSERT_EQUAL(ErrorCode::forbidden_header, result.error);
        CPPUNIT_ASSERT_EQUAL(std::size_t(2), result.index);
    }

    //
    void operation_names_of_1_and_128_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_operation_name("x"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_operation_name(string(128, 'x')));
        CPPUNIT_ASSERT_EQUAL(kOk, check_operation_name("买 卖/é?"));
    }
    void operation_names_of_0_and_129_bytes_are_refused() {
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_operation, check_operation_name(""));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_operation, check_operation_name(string(129, 'x')));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_operation, check_operation_name(repeated("买", 43)));
    }
    void operation_name_is_text() {
        for (const char* name : {"a\nb", "\x01", "\x7F", "\xC2\x80", "\xFF", "\xE4\xB9"}) {
            CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_operation, check_operation_name(name));
        }
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_operation, check_operation_name(std::string_view("a\0b", 3)));
    }

    void object_keys_of_1_and_512_bytes_are_accepted() {
        CPPUNIT_ASSERT_EQUAL(kOk, check_object_key("k"));
        CPPUNIT_ASSERT_EQUAL(kOk, check_object_key(string(512, '\xFF')));
    }
    void object_keys_of_0_and_513_bytes_are_refused() {
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_object, check_object_key(""));
        CPPUNIT_ASSERT_EQUAL(ErrorCode::invalid_object, check_object_key(string(513, 'k')));
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(TextRulesTest);

}  // namespace durable
