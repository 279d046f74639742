// SPDX-License-Identifier: BSD-2-Clause
#include "core/json_text.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <cstdio>
#include <string>

#include "core/json_check.h"

namespace durable {

namespace {

using std::string;

string quoted(std::string_view text) {
    string out;
    append_json_string(out, text);
    return out;
}

string untrusted(std::string_view bytes, std::size_t max_bytes = 1000) {
    string out;
    append_json_untrusted(out, bytes, max_bytes);
    return out;
}

string escape_of(int byte) {
    switch (byte) {
        case '"': return "\\\"";
        case '\\': return "\\\\";
        case '\b': return "\\b";
        case '\f': return "\\f";
        case '\n': return "\\n";
        case '\r': return "\\r";
        case '\t': return "\\t";
        default: break;
    }
    if (byte >= 0x20) return string(1, static_cast<char>(byte));
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(byte));
    return escape;
}

void assert_refused(std::string_view body) {
    CPPUNIT_ASSERT_MESSAGE("accepted: " + string(body), !parse_stream_start(body));
}

}  // namespace

class JsonTextTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(JsonTextTest);
    CPPUNIT_TEST(strings_are_quoted_and_appended);
    CPPUNIT_TEST(every_byte_is_escaped_as_it_must_be_wherever_it_stands);
    CPPUNIT_TEST(utf8_passes_as_it_is);
    CPPUNIT_TEST(long_strings_are_whole);
    CPPUNIT_TEST(untrusted_bytes_become_valid_utf8);
    CPPUNIT_TEST(untrusted_bytes_behind_the_view_are_not_looked_at);
    CPPUNIT_TEST(untrusted_bytes_are_cut_between_characters);
    CPPUNIT_TEST(any_untrusted_bytes_make_a_json_string);
    CPPUNIT_TEST(an_empty_body_means_the_defaults);
    CPPUNIT_TEST(both_members_are_optional);
    CPPUNIT_TEST(status_and_headers_are_read_in_order);
    CPPUNIT_TEST(values_are_not_judged_here);
    CPPUNIT_TEST(numbers_that_are_no_status_are_kept_out_of_range);
    CPPUNIT_TEST(unknown_members_are_ignored_and_the_last_of_a_name_wins);
    CPPUNIT_TEST(names_are_case_sensitive);
    CPPUNIT_TEST(wrong_types_are_refused);
    CPPUNIT_TEST(bodies_that_are_not_strict_json_are_refused);
    CPPUNIT_TEST(strings_with_a_nul_are_refused_and_not_cut);
    CPPUNIT_TEST(nul_escapes_are_told_from_escaped_backslashes);
    CPPUNIT_TEST(deep_bodies_are_refused_without_harm);
    CPPUNIT_TEST_SUITE_END();

public:
    void strings_are_quoted_and_appended() {
        string out = "{\"a\":";
        append_json_string(out, "b");
        append_json_string(out, "");
        CPPUNIT_ASSERT_EQUAL(string("{\"a\":\"b\"\"\""), out);
    }

    void every_byte_is_escaped_as_it_must_be_wherever_it_stands() {  // RFC 8259, 7
        for (int byte = 0; byte < 256; ++byte) {
            for (std::size_t before = 0; before < 20; ++before) {
                for (std::size_t behind : {0, 1, 7, 8, 20}) {
                    const string text = string(before, ' ') + static_cast<char>(byte) + string(behind, '\x7F');
                    const string expected = '"' + string(before, ' ') + escape_of(byte) + string(behind, '\x7F') + '"';
                    CPPUNIT_ASSERT_EQUAL(expected, quoted(text));
                }
            }
        }
    }

    void utf8_passes_as_it_is() {
        CPPUNIT_ASSERT_EQUAL(string("\"收摊 é 😀 \xE2\x80\xA8 /\""), quoted("收摊 é 😀 \xE2\x80\xA8 /"));
    }

    void long_strings_are_whole() {
        CPPUNIT_ASSERT_EQUAL('"' + string(65536, 'x') + '"', quoted(string(65536, 'x')));
        CPPUNIT_ASSERT_EQUAL(std::size_t(2 * 65536 + 2), quoted(string(65536, '"')).size());
        CPPUNIT_ASSERT_EQUAL(std::size_t(6 * 65536 + 2), quoted(string(65536, '\0')).size());
    }

    void untrusted_bytes_become_valid_utf8() {
        CPPUNIT_ASSERT_EQUAL(string("a��b"), untrusted("a\xFF\x80"
                                                       "b"));
        CPPUNIT_ASSERT_EQUAL(string("����"), untrusted("\xF0\x9F\x98\xC3"));
        CPPUNIT_ASSERT_EQUAL(string("��"), untrusted("\xC0\xAF"));
        CPPUNIT_ASSERT_EQUAL(string("���"), untrusted("\xED\xA0\x80"));
        CPPUNIT_ASSERT_EQUAL(string("���"), untrusted("\xE0\x9F\xBF"));
        CPPUNIT_ASSERT_EQUAL(string("����"), untrusted("\xF0\x8F\xBF\xBF"));
        CPPUNIT_ASSERT_EQUAL(string("����"), untrusted("\xF4\x90\x80\x80"));
        for (const char* valid : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEF\xBF\xBF",
                                  "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
            CPPUNIT_ASSERT_EQUAL(string(valid), untrusted(valid));
        }
    }

    void untrusted_bytes_behind_the_view_are_not_looked_at() {
        CPPUNIT_ASSERT_EQUAL(string("�"), untrusted(std::string_view("\xC3\xA9", 1)));
        CPPUNIT_ASSERT_EQUAL(string("��"), untrusted(std::string_view("\xE2\x82\xAC", 2)));
    }

    void untrusted_bytes_are_cut_between_characters() {
        CPPUNIT_ASSERT_EQUAL(string("abc"), untrusted("abc", 3));
        CPPUNIT_ASSERT_EQUAL(string("ab…"), untrusted("abc", 2));
        CPPUNIT_ASSERT_EQUAL(string("收…"), untrusted("收摊", 5));
        CPPUNIT_ASSERT_EQUAL(string("收摊"), untrusted("收摊", 6));
        CPPUNIT_ASSERT_EQUAL(string("…"), untrusted("a", 0));
        CPPUNIT_ASSERT_EQUAL(string(), untrusted("", 0));
    }

    void any_untrusted_bytes_make_a_json_string() {
        for (unsigned pair = 0; pair < 65536; ++pair) {
            const string bytes = {static_cast<char>(pair >> 8), static_cast<char>(pair)};
            CPPUNIT_ASSERT(is_valid_json('"' + untrusted(bytes) + '"'));
        }
    }

    void an_empty_body_means_the_defaults() {  // S-1
        const auto start = parse_stream_start("");
        CPPUNIT_ASSERT(start);
        CPPUNIT_ASSERT_EQUAL(200, start->status);
        CPPUNIT_ASSERT(start->headers.empty());
    }

    void both_members_are_optional() {  // S-1
        CPPUNIT_ASSERT_EQUAL(200, parse_stream_start("{}")->status);
        CPPUNIT_ASSERT_EQUAL(206, parse_stream_start(" {\"status\": 206} \n")->status);
        CPPUNIT_ASSERT_EQUAL(200, parse_stream_start("{\"headers\":[]}")->status);
    }

    void status_and_headers_are_read_in_order() {  // S-1
        const auto start = parse_stream_start(R"({"status":201,"headers":[["A","1"],["b","\u6536\t"],["A",""]]})");
        CPPUNIT_ASSERT(start);
        CPPUNIT_ASSERT_EQUAL(201, start->status);
        const std::vector<std::pair<string, string>> expected = {{"A", "1"}, {"b", "收\t"}, {"A", ""}};
        CPPUNIT_ASSERT(expected == start->headers);
    }

    void values_are_not_judged_here() {  // S-2, S-4: text_rules
        CPPUNIT_ASSERT_EQUAL(404, parse_stream_start("{\"status\":404}")->status);
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), parse_stream_start(R"({"headers":[["","\r\n"]]})")->headers.size());
    }

    void numbers_that_are_no_status_are_kept_out_of_range() {  // S-2
        CPPUNIT_ASSERT_EQUAL(200, parse_stream_start("{\"status\":2e2}")->status);
        for (const char* number : {"200.5", "-200", "1e999999", "4294967496", "1e300", "-0.5"}) {
            CPPUNIT_ASSERT_EQUAL(-1, parse_stream_start("{\"status\":" + string(number) + "}")->status);
        }
    }

    void unknown_members_are_ignored_and_the_last_of_a_name_wins() {
        const auto start = parse_stream_start(
            R"({"status":201,"x":{"status":"no"},"headers":[["A","1"]],"status":202,"headers":[["B","2"]]})");
        CPPUNIT_ASSERT(start);
        CPPUNIT_ASSERT_EQUAL(202, start->status);
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), start->headers.size());
        CPPUNIT_ASSERT_EQUAL(string("B"), start->headers[0].first);
    }

    void names_are_case_sensitive() { CPPUNIT_ASSERT_EQUAL(200, parse_stream_start("{\"Status\":201}")->status); }

    void wrong_types_are_refused() {
        for (const char* body : {"[]",
                                 "null",
                                 "\"\"",
                                 "200",
                                 "true",
                                 R"({"status":"200"})",
                                 R"({"status":null})",
                                 R"({"status":[200]})",
                                 R"({"status":true})",
                                 R"({"headers":{}})",
                                 R"({"headers":null})",
                                 R"({"headers":"A"})",
                                 R"({"headers":["A","1"]})",
                                 R"({"headers":[["A"]]})",
                                 R"({"headers":[["A","1","2"]]})",
                                 R"({"headers":[["A",1]]})",
                                 R"({"headers":[[null,"1"]]})",
                                 R"({"headers":[{"A":"1"}]})",
                                 R"({"headers":[[]]})",
                                 R"({"headers":[["A",["1"]]]})",
                                 R"({"headers":[{"0":"A","1":"B"}]})"}) {
            assert_refused(body);
        }
    }

    void bodies_that_are_not_strict_json_are_refused() {  // cJSON alone takes some of these
        for (const char* body :
             {" ", "{", "{}x", "{} {}", "{\"status\":200,}", "{\"status\":0200}", "{\"status\":+200}", "{'status':200}",
              "\xEF\xBB\xBF{}", "{\"headers\":[[\"A\",\"\xFF\"]]}", "{\"headers\":[[\"A\",\"a\tb\"]]}",
              "{\"status\":200.}", "{}//"}) {
            assert_refused(body);
        }
        assert_refused(std::string_view("{}\0", 3));
        assert_refused(std::string_view("\0", 1));
    }

    void strings_with_a_nul_are_refused_and_not_cut() {
        assert_refused(R"({"headers":[["X-A\u0000B","1"]]})");
        assert_refused(R"({"headers":[["A","1\u00002"]]})");
        assert_refused(R"({"status\u0000":201})");
        CPPUNIT_ASSERT_EQUAL(string("\\u0000"),
                             parse_stream_start(R"({"headers":[["A","\\u0000"]]})")->headers[0].second);
    }

    void nul_escapes_are_told_from_escaped_backslashes() {
        for (const char* json : {R"("\u0000")", R"("\\\u0000")", R"(["\n",{"\u0000":1}])", R"("\"\u0000x")"}) {
            CPPUNIT_ASSERT_MESSAGE(json, has_nul_escape(json));
        }
        for (const char* json :
             {R"("\\u0000")", R"("u0000")", R"("\\\\u0000")", R"("\u0001\u1000")", "{}", "\"\\\\\""}) {
            CPPUNIT_ASSERT_MESSAGE(json, !has_nul_escape(json));
        }
        CPPUNIT_ASSERT(!has_nul_escape("\\"));
    }

    void deep_bodies_are_refused_without_harm() {
        for (std::size_t depth : {900, 1100, 100000}) {
            const string value = string(depth, '[') + string(depth, ']');
            const auto start = parse_stream_start("{\"x\":" + value + "}");
            CPPUNIT_ASSERT_EQUAL(depth == 900, start.has_value());
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(JsonTextTest);

}  // namespace durable
