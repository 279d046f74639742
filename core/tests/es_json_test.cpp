// SPDX-License-Identifier: BSD-2-Clause
// The expected texts are what Node.js answers to JSON.stringify(JSON.parse(text)).
#include "core/es_json.h"

#include <cppunit/extensions/HelperMacros.h>

namespace {

class EsJsonTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(EsJsonTest);
    CPPUNIT_TEST(texts_are_written_as_json_stringify_would_E_10);
    CPPUNIT_TEST(numbers_are_written_as_ecmascript_would_E_10);
    CPPUNIT_TEST(what_is_not_json_is_refused_E_5);
    CPPUNIT_TEST(names_sort_by_utf16_code_unit_E_19);
    CPPUNIT_TEST(compacting_keeps_strings_and_numbers);
    CPPUNIT_TEST(sources_are_the_values_own_text);
    CPPUNIT_TEST_SUITE_END();

    static std::string rewritten(std::string_view text) {
        const auto value = durable::parse_es_json(text);
        return value ? durable::write_es_json(*value) : "refused";
    }

public:
    // E-10
    void texts_are_written_as_json_stringify_would_E_10() {
        const char* const rows[][2] = {
            {R"( { "b" : 1 , "a" : "é" } )", R"({"b":1,"a":"é"})"},
            {R"({"b":1,"10":2,"a":3,"2":4,"01":5,"-1":6})", R"({"2":4,"10":2,"b":1,"a":3,"01":5,"-1":6})"},
            {R"({"4294967294":1,"4294967295":2,"0":3})", R"({"0":3,"4294967294":1,"4294967295":2})"},
            {R"({"a":1,"b":2,"a":3})", R"({"a":3,"b":2})"},
            {R"("\u00e9\u0041\/\u007f")", "\"éA/\x7f\""},
            {R"("\u0000\u001f\b\f\n\r\t\"\\")", R"("\u0000\u001f\b\f\n\r\t\"\\")"},
            {R"("\ud83d\ude00 \uD83D x\ude00 \ud83d\ud83d\ude00")", R"("😀 \ud83d x\ude00 \ud83d😀")"},
            {R"("\u2028")", "\"\xE2\x80\xA8\""},
            {"[ ]", "[]"},
            {"{ }", "{}"},
            {"[null,true,false]", "[null,true,false]"},
            {R"({"__proto__":1,"":2})", R"({"__proto__":1,"":2})"},
        };
        for (const auto& row : rows) CPPUNIT_ASSERT_EQUAL(std::string(row[1]), rewritten(row[0]));
    }

    // E-10
    void numbers_are_written_as_ecmascript_would_E_10() {
        const char* const rows[][2] = {
            {"-0", "0"},
            {"0", "0"},
            {"1.0", "1"},
            {"1e3", "1000"},
            {"-1.50", "-1.5"},
            {"0.1", "0.1"},
            {"123456789012345678901", "123456789012345680000"},
            {"1e21", "1e+21"},
            {"1e20", "100000000000000000000"},
            {"0.000001", "0.000001"},
            {"0.0000001", "1e-7"},
            {"1.5e-7", "1.5e-7"},
            {"1e400", "null"},
            {"-1e400", "null"},
            {"1e-400", "0"},
            {"5e-324", "5e-324"},
            {"1.7976931348623157e308", "1.7976931348623157e+308"},
            {"9007199254740993", "9007199254740992"},
            {"12.34E+1", "123.4"},
            {"0.1e1", "1"},
            {"0e999999999999", "0"},
        };
        for (const auto& row : rows) CPPUNIT_ASSERT_EQUAL(std::string(row[1]), rewritten(row[0]));
    }

    // E-5
    void what_is_not_json_is_refused_E_5() {
        using namespace std::string_literals;
        for (const std::string& bad : {""s,
                                       " "s,
                                       "{"s,
                                       "[1,]"s,
                                       "{\"a\":1,}"s,
                                       "{a:1}"s,
                                       "'a'"s,
                                       "01"s,
                                       "+1"s,
                                       ".5"s,
                                       "1."s,
                                       "1e"s,
                                       "-"s,
                                       "nul"s,
                                       "\"\n\""s,
                                       "\"\\x\""s,
                                       "\"\\u12g4\""s,
                                       "\"\\u12\""s,
                                       "\"a"s,
                                       "1 2"s,
                                       "\"\xff\""s,
                                       "\"\xED\xA0\x80\""s,
                                       "\xEF\xBB\xBF{}"s,
                                       "NaN"s,
                                       "\0"s,
                                       std::string(1025, '[') + std::string(1025, ']')}) {
            CPPUNIT_ASSERT_EQUAL_MESSAGE(bad, "refused"s, rewritten(bad));
        }
        CPPUNIT_ASSERT(rewritten(std::string(1024, '[') + std::string(1024, ']')) != "refused");
    }

    // E-19
    void names_sort_by_utf16_code_unit_E_19() {
        CPPUNIT_ASSERT(durable::utf16_less("a", "b"));
        CPPUNIT_ASSERT(durable::utf16_less("a", "aa"));
        CPPUNIT_ASSERT(!durable::utf16_less("a", "a"));
        CPPUNIT_ASSERT(durable::utf16_less("", "a"));
        CPPUNIT_ASSERT(durable::utf16_less("😀", "\xEF\xBF\xBD"));  // U+1F600 before U+FFFD
        CPPUNIT_ASSERT(!durable::utf16_less("\xEF\xBF\xBD", "😀"));
        CPPUNIT_ASSERT(durable::utf16_less("\xED\x9F\xBF", "😀"));  // U+D7FF before it
    }

    void compacting_keeps_strings_and_numbers() {
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"a b":[1.00,"x \" y\\",10000000000000000001]})"),
            durable::compact_json("{ \"a b\" :\n[ 1.00,\t\"x \\\" y\\\\\" , 10000000000000000001 ] }"));
    }

    void sources_are_the_values_own_text() {
        const std::string text = R"({"a": [1, 2] ,"b":"c"})";
        const auto value = durable::parse_es_json(text);
        CPPUNIT_ASSERT_EQUAL(std::string("[1, 2]"), std::string(value->find("a")->source));
        CPPUNIT_ASSERT(value->find("c") == nullptr);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EsJsonTest);

}  // namespace
