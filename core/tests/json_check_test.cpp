// SPDX-License-Identifier: BSD-2-Clause
// X-2, X-4: what counts as a JSON text. A table of cases, each also against the plain recogniser,
// and random texts against it.
#include "core/json_check.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <iterator>
#include <random>
#include <string>

#include "core/tests/json_recogniser.h"

namespace durable {

namespace {

using std::string;
using Result = JsonCheck::Result;

string repeated(std::string_view part, std::size_t count) {
    string out;
    for (std::size_t i = 0; i < count; ++i) out += part;
    return out;
}

// Checks in place, in slices of `values`, with this byte in all of the padding.
bool is_valid_in_place(const string& text, char padding, std::size_t values) {
    const string padded = text + string(kJsonPadding, padding);
    JsonCheck check(std::string_view(padded).substr(0, text.size()), padded.size());
    // Each step takes a value or leaves a container, and a text has fewer of both than bytes.
    for (std::size_t steps = 0; steps <= text.size() + 1; ++steps) {
        const Result result = check.step(values);
        if (result == Result::more) continue;
        CPPUNIT_ASSERT(check.step(values) == result);
        return result == Result::valid;
    }
    CPPUNIT_FAIL("the check does not end");
    return false;
}

void assert_agrees(const string& text) {
    const bool expected = JsonRecogniser(text).accepts();
    CPPUNIT_ASSERT_EQUAL_MESSAGE(text, expected, is_valid_json(text));
    for (const char padding : string("\0 ],}\"0:\\[{1\xFF", 13)) {
        CPPUNIT_ASSERT_EQUAL_MESSAGE(text, expected, is_valid_in_place(text, padding, 3));
    }
}

void assert_valid(const string& text) {
    CPPUNIT_ASSERT_MESSAGE("refused: " + text, is_valid_json(text));
    assert_agrees(text);
}

void assert_invalid(const string& text) {
    CPPUNIT_ASSERT_MESSAGE("accepted: " + text, !is_valid_json(text));
    assert_agrees(text);
}

// The same alone, in an array, as a member's value and, with blanks, behind another value.
template <class Assert>
void everywhere(Assert&& assert_one, const string& value) {
    assert_one(value);
    assert_one("[" + value + "]");
    assert_one("{\"a\":" + value + "}");
    assert_one(" [ 1 , " + value + " ] \n");
    assert_one("[" + value + ",{\"b\":[" + value + "]}]");
}

}  // namespace

class JsonCheckTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(JsonCheckTest);
    CPPUNIT_TEST(plain_values_are_valid);
    CPPUNIT_TEST(numbers_of_any_size_are_valid);
    CPPUNIT_TEST(what_only_looks_like_a_number_is_refused);
    CPPUNIT_TEST(strings_and_their_escapes_are_valid);
    CPPUNIT_TEST(broken_strings_are_refused);
    CPPUNIT_TEST(lone_surrogate_escapes_are_valid);
    CPPUNIT_TEST(text_that_is_not_utf8_is_refused);
    CPPUNIT_TEST(control_characters_in_strings_are_refused);
    CPPUNIT_TEST(a_byte_order_mark_is_refused);
    CPPUNIT_TEST(empty_and_blank_texts_are_refused);
    CPPUNIT_TEST(blanks_around_are_fine_and_only_four_bytes_are_blank);
    CPPUNIT_TEST(containers_are_valid);
    CPPUNIT_TEST(broken_containers_are_refused);
    CPPUNIT_TEST(duplicate_names_are_fine);
    CPPUNIT_TEST(member_names_are_checked_like_strings);
    CPPUNIT_TEST(whatever_follows_the_value_is_refused);
    CPPUNIT_TEST(near_literals_are_refused);
    CPPUNIT_TEST(nesting_of_1024_is_valid_and_of_1025_refused);
    CPPUNIT_TEST(nesting_of_a_million_is_refused_quickly);
    CPPUNIT_TEST(every_cut_of_a_text_is_refused);
    CPPUNIT_TEST(eight_mebibytes_are_checked_in_slices);
    CPPUNIT_TEST(a_fault_at_the_end_of_a_large_text_is_found);
    CPPUNIT_TEST(random_tokens_agree_with_the_grammar);
    CPPUNIT_TEST(random_changes_of_valid_texts_agree_with_the_grammar);
    CPPUNIT_TEST_SUITE_END();

public:
    void plain_values_are_valid() {  // X-2
        for (const char* value : {"null", "true", "false", "0", "-0", "\"\"", "[]", "{}", "\"a\"", "12", "[[]]"}) {
            everywhere(assert_valid, value);
        }
    }

    void numbers_of_any_size_are_valid() {  // X-2
        for (const string& value :
             {string("1e999999"), string("-1E-999999"), string("1e+0"), string("0e0"), string("0.0"), string("-0.0e-0"),
              string("9223372036854775808"), string("18446744073709551616"), string(400, '9'), "-1" + string(400, '0'),
              "0." + string(2000, '3'), "1e" + string(400, '9'), string("1.7976931348623159e308"),
              string(100000, '1')}) {
            everywhere(assert_valid, value);
        }
    }

    void what_only_looks_like_a_number_is_refused() {  // X-2
        for (const char* value : {"01", "-01",   "00",   "-",        "+1",        "1.",  ".5",   "-.5",   "1.e1",
                                  "1e", "1e+",   "1E-",  "0x10",     "1_0",       "1 2", "--1",  "1-2",   "1e1.5",
                                  "0e", "1.2.3", "1ee2", "Infinity", "-Infinity", "NaN", "-NaN", "1a",    "1\"a\"",
                                  "0-", "1e 2",  "- 1",  "1 .5",     "１",        "1'",  "1n",   "1null", "1true"}) {
            everywhere(assert_invalid, value);
        }
    }

    void strings_and_their_escapes_are_valid() {  // X-2
        for (const string& value :
             {string(R"("\"\\\/\b\f\n\r\t")"), string(R"("\u0000\u001f\uABCD\uabcd\uFfFf")"), string("\"收摊😀\""),
              string("\"\x7F\""), string("\"\xC2\x80\xE2\x80\xA8\xEF\xBF\xBF\xF4\x8F\xBF\xBF\""), string(R"("[{,:}]")"),
              string(R"("\\")"), string(R"("\\\"")"), "\"" + string(100, '\\') + "\"", string(R"("'")"),
              string(R"("//")"), string(R"("\ud83d\ude00")"), "\"" + string(200, 'x') + "\""}) {
            everywhere(assert_valid, value);
        }
    }

    void broken_strings_are_refused() {  // X-2
        for (const string& value : {string("\""),
                                    string("\"a"),
                                    string("\"\\\""),
                                    string(R"("\a")"),
                                    string(R"("\'")"),
                                    string(R"("\0")"),
                                    string(R"("\x41")"),
                                    string(R"("\u")"),
                                    string(R"("\u1")"),
                                    string(R"("\u12")"),
                                    string(R"("\u123")"),
                                    string(R"("\u123g")"),
                                    string(R"("\u 123")"),
                                    string(R"("\U1234")"),
                                    string(R"("\u-123")"),
                                    string("'a'"),
                                    string("\"a\"b"),
                                    string("\"a\"\"b\""),
                                    string("\"a\" \"b\""),
                                    string("\"a\"1"),
                                    string("a"),
                                    "\"" + string(99, '\\') + "\"",
                                    string("\"\\\xC3\xA9\""),
                                    string("\"a\"\\"),
                                    string("\"a\\"),
                                    string("\\\"a\"")}) {
            everywhere(assert_invalid, value);
        }
    }

    void lone_surrogate_escapes_are_valid() {  // X-2: RFC 8259, 7 and 8.2
        for (const char* value : {R"("\ud800")", R"("\udc00")", R"("\udfff\ud800")", R"("\ud800\u0041")",
                                  R"("\ud800x")", R"("\ud800\n")", R"("\ud800\ud800")"}) {
            everywhere(assert_valid, value);
        }
        assert_valid(R"({"\ud800":1})");
    }

    void text_that_is_not_utf8_is_refused() {  // X-2
        for (const char* bytes : {"\xFF", "\x80", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82",
                                  "\xF8\x88\x80\x80\x80", "\xFE"}) {
            everywhere(assert_invalid, "\"" + string(bytes) + "\"");
            everywhere(assert_invalid, bytes);
            assert_invalid("{\"" + string(bytes) + "\":1}");
        }
        assert_invalid("\"a\" \xFF");
        assert_invalid(string("[\0\"\0a\0\"\0]\0", 10));  // UTF-16
    }

    void control_characters_in_strings_are_refused() {  // X-2
        for (int byte = 0; byte < 0x20; ++byte) {
            everywhere(assert_invalid, string("\"a") + static_cast<char>(byte) + "b\"");
            assert_invalid(string("\"") + string(70, 'x') + static_cast<char>(byte) + "\"");
            assert_invalid(string("\"\\") + static_cast<char>(byte) + "\"");
        }
    }

    void a_byte_order_mark_is_refused() {  // X-2: RFC 8259, 8.1
        assert_invalid("\xEF\xBB\xBF{}");
        assert_invalid("\xEF\xBB\xBF");
        assert_invalid("\xEF\xBB\xBF 1");
        assert_invalid("{}\xEF\xBB\xBF");
        assert_valid("\"\xEF\xBB\xBF\"");
    }

    void empty_and_blank_texts_are_refused() {  // X-2
        for (const string& text : {string(), string(" "), string("\n\r\t "), string(200, ' ')}) assert_invalid(text);
        CPPUNIT_ASSERT(!is_valid_json({}));
    }

    void blanks_around_are_fine_and_only_four_bytes_are_blank() {  // X-2
        assert_valid(" \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n[ \t\r\n1 \t\r\n, \t\r\n2 \t\r\n] \t\r\n} \t\r\n");
        for (int byte = 0; byte < 256; ++byte) {
            const char each = static_cast<char>(byte);
            const bool is_blank = each == ' ' || each == '\t' || each == '\n' || each == '\r';
            for (const string& text :
                 {string("1") + each, each + string("[1]"), string("[1") + each + "]", string("[") + each + "\"a\"]",
                  string("{\"a\"") + each + ":1}", string("\"a\"") + each, string("{\"a\":true") + each + "}"}) {
                if (is_blank) {
                    assert_valid(text);
                } else {
                    assert_agrees(text);
                }
            }
        }
    }

    void containers_are_valid() {  // X-2
        for (const char* value : {"[1,2,3]", "[[],[[]],{}]", R"({"a":{"b":{"c":[]}},"d":{}})", R"({"":""})",
                                  R"([{"a":1},{"a":2}])", R"({"a":[1,{"b":[2]}],"c":3})"}) {
            everywhere(assert_valid, value);
        }
    }

    void broken_containers_are_refused() {  // X-2
        for (const char* value : {"[",
                                  "]",
                                  "{",
                                  "}",
                                  "[1",
                                  "1]",
                                  "[1,",
                                  "[1,]",
                                  "[,1]",
                                  "[,]",
                                  "[1,,2]",
                                  "[1 2]",
                                  "[1:2]",
                                  "{1:2}",
                                  "{\"a\"}",
                                  "{\"a\":}",
                                  "{\"a\":1,}",
                                  "{,}",
                                  "{\"a\" 1}",
                                  "{\"a\",1}",
                                  "{\"a\":1 \"b\":2}",
                                  "{\"a\":1,,\"b\":2}",
                                  "{\"a\"::1}",
                                  "{a:1}",
                                  "{'a':1}",
                                  "{\"a\":1",
                                  "{\"a\":",
                                  "{\"a\"",
                                  "[}",
                                  "{]",
                                  "[[]",
                                  "[]]",
                                  "[1}",
                                  "{\"a\":1]",
                                  "[{]}",
                                  "[{\"a\":]}",
                                  "{\"a\":[}]",
                                  "[[1}}",
                                  "{null:1}",
                                  "{[]:1}",
                                  "{{}:1}",
                                  "[\"a\":1]",
                                  "[\"a\":{}}]",
                                  "[:]",
                                  "{:}",
                                  "[1]2",
                                  "[[]1]",
                                  "[{}1]",
                                  "{\"a\":{}1}",
                                  "[{}{}]",
                                  "[][]",
                                  "{}{}",
                                  ",",
                                  ":",
                                  "[1/**/]",
                                  "[1]//",
                                  "#[1]",
                                  "[1;2]",
                                  "(1)",
                                  "{\"a\":1,\"b\"}",
                                  "{\"a\":1,2}",
                                  "[],",
                                  ",[]",
                                  "{},",
                                  "[\"a\",\"b\"",
                                  "[\"a\"\"b\"]"}) {
            assert_invalid(value);
            assert_agrees("[" + string(value));
            assert_agrees(string(value) + "]");
            assert_agrees("[" + string(value) + "]");
            assert_agrees("{\"a\":" + string(value) + "}");
        }
    }

    void duplicate_names_are_fine() { assert_valid(R"({"a":1,"a":2,"a":[{"a":3}]})"); }  // X-2: RFC 8259, 4

    void member_names_are_checked_like_strings() {  // X-2
        assert_valid(R"({"\u0041\n\"":1})");
        assert_invalid(R"({"\x":1})");
        assert_invalid(R"({"\u12":1})");
        assert_invalid(R"({"a":1,"\q":2})");
        assert_invalid("{\"a\nb\":1}");
        assert_invalid("{\"a:1}");
        assert_invalid("{\"a\\\":1}");
        assert_invalid("{\"a\"b:1}");
    }

    void whatever_follows_the_value_is_refused() {  // X-2
        for (const char* value : {"1", "\"a\"", "null", "[]", "{}", "[1]", "{\"a\":1}"}) {
            for (const char* rest : {"1", "]", "}", ",", ":", "\"", "\"b\"", "null", "[]", "{}", "x", "\\", "//"}) {
                if (string(value) + rest == "11") continue;
                assert_invalid(string(value) + rest);
                assert_invalid(string(value) + " " + rest);
                assert_invalid(string(value) + string(80, '\n') + rest);
            }
        }
        assert_invalid(string("1\0", 2));
        assert_invalid(string("{}\0", 3));
    }

    void near_literals_are_refused() {  // X-2
        for (const char* value :
             {"True", "TRUE",      "tru", "truee", "true1", "true\"a\"", "fals", "falsee", "nul",   "nulll",
              "None", "undefined", "t",   "f",     "n",     "t rue",     "nan",  "null0",  "true.", "null-"}) {
            everywhere(assert_invalid, value);
        }
    }

    void nesting_of_1024_is_valid_and_of_1025_refused() {  // X-2
        const auto arrays = [](std::size_t depth) { return string(depth, '[') + string(depth, ']'); };
        const auto objects = [](std::size_t depth) {
            return repeated("{\"a\":", depth - 1) + "{}" + string(depth - 1, '}');
        };
        const auto mixed = [](std::size_t depth) {
            return repeated("[1,{\"a\":", depth / 2) + string(depth % 2, '[') + "0" + string(depth % 2, ']') +
                   repeated(",\"b\":2},3]", depth / 2);
        };
        for (std::size_t depth : {1023, 1024}) {
            assert_valid(arrays(depth));
            assert_valid(objects(depth));
            assert_valid(mixed(depth));
            assert_valid("[" + repeated(arrays(depth - 1) + ",", 3) + "1]");
        }
        assert_invalid(arrays(1025));
        assert_invalid(objects(1025));
        assert_invalid(mixed(1025));
        assert_invalid(mixed(1026));
    }

    void nesting_of_a_million_is_refused_quickly() {  // X-2
        CPPUNIT_ASSERT(!is_valid_json(string(1000000, '[')));
        CPPUNIT_ASSERT(!is_valid_json(string(1000000, '[') + string(1000000, ']')));
        CPPUNIT_ASSERT(!is_valid_json(repeated("{\"a\":", 200000)));
    }

    void every_cut_of_a_text_is_refused() {
        const string text = R"({"a":[1,-2.5e+7,"x\u00e9\\",true,null,{"b":{}}],"c":[[],"收"]})";
        for (std::size_t size = 0; size < text.size(); ++size) {
            assert_invalid(text.substr(0, size));
            assert_agrees(text.substr(size));
            assert_agrees(text.substr(0, size) + text.substr(size + 1));
        }
        assert_valid(text);
    }

    void eight_mebibytes_are_checked_in_slices() {  // X-2
        string text = "[" + repeated(R"({"id":12345,"name":"abcdefgh"},)", 260000);
        text.resize(8388608 - 3, ' ');
        text += "{}]";
        const string padded = text + string(kJsonPadding, 'x');
        JsonCheck check(std::string_view(padded).substr(0, text.size()), padded.size());
        unsigned slices = 0;
        Result result = Result::more;
        while (result == Result::more && ++slices < 10000) result = check.step(1000);
        CPPUNIT_ASSERT(result == Result::valid);
        CPPUNIT_ASSERT(slices > 700);
        CPPUNIT_ASSERT(is_valid_json("\"" + string(8388606, 'x') + "\""));
    }

    void a_fault_at_the_end_of_a_large_text_is_found() {  // X-2
        const string text = "[" + repeated("1,", 4194300);
        CPPUNIT_ASSERT(is_valid_json(text + "1]"));
        CPPUNIT_ASSERT(!is_valid_json(text + "]"));
        CPPUNIT_ASSERT(!is_valid_json(text + "01]"));
        CPPUNIT_ASSERT(!is_valid_json(text + "1"));
        CPPUNIT_ASSERT(!is_valid_json(text + "1]]"));
    }

    void random_tokens_agree_with_the_grammar() {
        const char* const tokens[] = {"[", "]", "{",  "}",       ",",    ":",    "\"a\"", "\"\\u00e9\"", "1",  "-0.5e3",
                                      "0", " ", "\n", "\"\\x\"", "null", "true", "false", "\"",          "01", "e"};
        std::mt19937 random(11);
        unsigned valid = 0;
        for (int i = 0; i < 60000; ++i) {
            string text;
            for (unsigned left = 1 + random() % 9; left != 0; --left) text += tokens[random() % std::size(tokens)];
            valid += JsonRecogniser(text).accepts();
            assert_agrees(text);
        }
        CPPUNIT_ASSERT(valid > 500);
    }

    void random_changes_of_valid_texts_agree_with_the_grammar() {
        std::mt19937 random(13);
        unsigned valid = 0, invalid = 0;
        for (int i = 0; i < 6000; ++i) {
            string text = random_value(random, 4);
            CPPUNIT_ASSERT_MESSAGE(text, JsonRecogniser(text).accepts());
            assert_agrees(text);
            for (unsigned changes = 1 + random() % 3; changes != 0; --changes) change(text, random);
            ++(JsonRecogniser(text).accepts() ? valid : invalid);
            assert_agrees(text);
        }
        CPPUNIT_ASSERT(valid > 300 && invalid > 1000);
    }

private:
    static string random_value(std::mt19937& random, unsigned depth) {
        static const char* const scalars[] = {"0",           "-1.5e-7",    "true", "null",
                                              "\"\\ud800\"", "\"收\\\"\"", "\"\"", "1e999999"};
        const unsigned kind = random() % (depth == 0 ? 1 : 3);
        if (kind == 0) return scalars[random() % std::size(scalars)];
        string out(1, kind == 1 ? '[' : '{');
        const unsigned count = random() % 4;
        for (unsigned i = 0; i < count; ++i) {
            if (i != 0) out += random() % 2 ? "," : " , ";
            if (kind == 2) out += random() % 2 ? "\"k\":" : "\"\\n\" : ";
            out += random_value(random, depth - 1);
        }
        return out + (kind == 1 ? ']' : '}');
    }

    static void change(string& text, std::mt19937& random) {
        static const string bytes = "[]{},:\"\\ \n0-1e.tu\xC3\xA9\x01\xFF/";
        const std::size_t at = text.empty() ? 0 : random() % text.size();
        switch (random() % 4) {
            case 0: text.insert(at, 1, bytes[random() % bytes.size()]); break;
            case 1: text.erase(at, 1 + random() % 3); break;
            case 2: text.insert(at, text.substr(random() % (text.size() + 1), random() % 6)); break;
            default:
                if (!text.empty()) text[at] = bytes[random() % bytes.size()];
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(JsonCheckTest);

}  // namespace durable
