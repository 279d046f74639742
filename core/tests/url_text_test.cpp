// SPDX-License-Identifier: BSD-2-Clause
#include "core/url_text.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <string>

namespace durable {

namespace {

using std::string;

string decoded(std::string_view text) {
    const auto result = percent_decode(text);
    return result ? *result : "(refused)";
}

string encoded(std::string_view bytes) {
    string out;
    append_percent_encoded(out, bytes);
    return out;
}

// One segment a pair of brackets.
string split(std::string_view path) {
    const PathSegments segments = split_path(path);
    string out;
    for (std::size_t i = 0; i < segments.count; ++i) out += "[" + string(segments.at[i]) + "]";
    return out;
}

string argument(std::string_view query, std::string_view name) {
    const auto value = find_argument(query, name);
    return value ? "=" + string(*value) : "(missing)";
}

}  // namespace

class UrlTextTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(UrlTextTest);
    CPPUNIT_TEST(text_without_escapes_is_itself);
    CPPUNIT_TEST(escapes_in_either_case_are_decoded);
    CPPUNIT_TEST(decoding_happens_once);
    CPPUNIT_TEST(plus_is_no_space);
    CPPUNIT_TEST(broken_escapes_are_refused);
    CPPUNIT_TEST(what_stands_behind_the_text_completes_no_escape);
    CPPUNIT_TEST(nul_is_decoded);
    CPPUNIT_TEST(unreserved_characters_are_not_encoded);
    CPPUNIT_TEST(every_byte_survives_encoding_and_decoding);
    CPPUNIT_TEST(path_is_split_before_it_is_decoded);
    CPPUNIT_TEST(empty_segments_count);
    CPPUNIT_TEST(path_with_too_many_segments_has_none);
    CPPUNIT_TEST(first_argument_of_a_name_wins);
    CPPUNIT_TEST(missing_and_empty_arguments_differ);
    CPPUNIT_TEST(argument_names_match_whole);
    CPPUNIT_TEST(argument_values_may_hold_equals_signs);
    CPPUNIT_TEST_SUITE_END();

public:
    void text_without_escapes_is_itself() {
        CPPUNIT_ASSERT_EQUAL(string(""), decoded(""));
        CPPUNIT_ASSERT_EQUAL(string("a-b/c?d=e"), decoded("a-b/c?d=e"));
    }

    void escapes_in_either_case_are_decoded() {
        CPPUNIT_ASSERT_EQUAL(string("a b/c"), decoded("a%20b%2Fc"));
        CPPUNIT_ASSERT_EQUAL(string("\xAB\xAB\xE6\x94\xB6"), decoded("%ab%AB%E6%94%b6"));
        CPPUNIT_ASSERT_EQUAL(string(".."), decoded("%2e%2E"));  // C-1: `..` is a channel name
    }

    void decoding_happens_once() {
        CPPUNIT_ASSERT_EQUAL(string("%41"), decoded("%2541"));
        CPPUNIT_ASSERT_EQUAL(string("%%"), decoded("%25%25"));
    }

    void plus_is_no_space() { CPPUNIT_ASSERT_EQUAL(string("a+b"), decoded("a+b")); }

    void broken_escapes_are_refused() {
        for (const char* text : {"%", "a%", "%4", "a%4", "%zz", "%4z", "%z4", "%%41", "%-1", "% 1", "%+1", "%0x"}) {
            CPPUNIT_ASSERT(!percent_decode(text));
        }
    }

    void what_stands_behind_the_text_completes_no_escape() {
        CPPUNIT_ASSERT(!percent_decode(std::string_view("%41", 2)));
        CPPUNIT_ASSERT(!percent_decode(std::string_view("%41", 1)));
    }

    void nul_is_decoded() { CPPUNIT_ASSERT_EQUAL(string("a\0b", 3), decoded("a%00b")); }

    void unreserved_characters_are_not_encoded() {
        const string unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
        CPPUNIT_ASSERT_EQUAL(unreserved, encoded(unreserved));
        CPPUNIT_ASSERT_EQUAL(string("%E6%94%B6%2F%20%25%2B%0D%0A%00"), encoded(std::string_view("收/ %+\r\n\0", 10)));
    }

    void every_byte_survives_encoding_and_decoding() {
        string bytes;
        for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
        const string text = encoded(bytes);
        for (const char byte : text) CPPUNIT_ASSERT(byte > 0x20 && byte < 0x7F);
        CPPUNIT_ASSERT_EQUAL(bytes, decoded(text));
    }

    void path_is_split_before_it_is_decoded() {
        CPPUNIT_ASSERT_EQUAL(string("[channels][a%2Fb][messages]"), split("channels/a%2Fb/messages"));
    }

    void empty_segments_count() {
        CPPUNIT_ASSERT_EQUAL(string("[]"), split(""));
        CPPUNIT_ASSERT_EQUAL(string("[][]"), split("/"));
        CPPUNIT_ASSERT_EQUAL(string("[channels][][close]"), split("channels//close"));
        CPPUNIT_ASSERT_EQUAL(string("[stream][]"), split("stream/"));
    }

    void path_with_too_many_segments_has_none() {
        CPPUNIT_ASSERT_EQUAL(string("[1][2][3][4][5][6][7][8]"), split("1/2/3/4/5/6/7/8"));
        CPPUNIT_ASSERT_EQUAL(string(""), split("1/2/3/4/5/6/7/8/9"));
        CPPUNIT_ASSERT_EQUAL(string(""), split(string(1000, '/')));
    }

    void first_argument_of_a_name_wins() {
        CPPUNIT_ASSERT_EQUAL(string("=1"), argument("event=1&event=2", "event"));
        CPPUNIT_ASSERT_EQUAL(string("=200"), argument("a=b&timeout=200", "timeout"));
        CPPUNIT_ASSERT_EQUAL(string("="), argument("event=&event=2", "event"));
    }

    void missing_and_empty_arguments_differ() {  // C-6
        CPPUNIT_ASSERT_EQUAL(string("(missing)"), argument("", "timeout"));
        CPPUNIT_ASSERT_EQUAL(string("(missing)"), argument("a=1&b=2", "timeout"));
        CPPUNIT_ASSERT_EQUAL(string("="), argument("timeout=", "timeout"));
        CPPUNIT_ASSERT_EQUAL(string("="), argument("a&timeout&b", "timeout"));
    }

    void argument_names_match_whole() {
        CPPUNIT_ASSERT_EQUAL(string("(missing)"), argument("xevent=1&eventx=2&event%20=3&Event=4", "event"));
        CPPUNIT_ASSERT_EQUAL(string("(missing)"), argument("a=event=1", "event"));
    }

    void argument_values_may_hold_equals_signs() {
        CPPUNIT_ASSERT_EQUAL(string("=a=b=c%26+d"), argument("&&x&event=a=b=c%26+d&y", "event"));
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(UrlTextTest);

}  // namespace durable
