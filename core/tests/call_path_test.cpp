// SPDX-License-Identifier: BSD-2-Clause
#include "core/call_path.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <string>

namespace durable {

namespace {

using std::string;

string below(std::string_view raw, std::string_view prefix) {
    const auto path = path_below(raw, prefix);
    return path ? string(*path) : "(not below)";
}

string argument(std::string_view path, std::string_view pattern) {
    std::string_view found = "(none)";
    return matches_call(split_path(path), pattern, found) ? string(found) : "(no match)";
}

}  // namespace

class CallPathTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(CallPathTest);
    CPPUNIT_TEST(the_prefix_goes_with_the_slash_behind_it);
    CPPUNIT_TEST(another_path_is_not_below);
    CPPUNIT_TEST(a_segment_that_goes_on_is_not_below);
    CPPUNIT_TEST(the_query_does_not_count);
    CPPUNIT_TEST(an_escaped_prefix_is_the_same);
    CPPUNIT_TEST(doubled_slashes_before_the_call_are_one);
    CPPUNIT_TEST(nothing_behind_the_prefix_is_changed);
    CPPUNIT_TEST(broken_escapes_match_nothing);
    CPPUNIT_TEST(patterns_match_whole_paths);
    CPPUNIT_TEST(a_pattern_takes_any_one_segment);
    CPPUNIT_TEST_SUITE_END();

    void the_prefix_goes_with_the_slash_behind_it() {
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/durable/channels/a", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/durable/channels/a", "/durable"));
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/channels/a", "/"));
        CPPUNIT_ASSERT_EQUAL(string("section"), below("/a/b/section", "/a/b/"));
        CPPUNIT_ASSERT_EQUAL(string(""), below("/durable/", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string(""), below("/durable", "/durable"));
    }

    void another_path_is_not_below() {
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/durab", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/durable", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/Durable/section", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/x/../durable/section", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("", "/durable/"));
    }

    void a_segment_that_goes_on_is_not_below() {
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/durablex/section", "/durable"));
    }

    void the_query_does_not_count() {
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/durable/channels/a?b=/c", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/durable/channels/a#b", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("channels/a%3Fb"), below("/durable/channels/a%3Fb", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/?/durable/", "/durable/"));
    }

    void an_escaped_prefix_is_the_same() {
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/%64urabl%65%2Fchannels/a", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("section"), below("/a%20b/section", "/a b/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/%2564urable/section", "/durable/"));
    }

    void doubled_slashes_before_the_call_are_one() {
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("//durable//channels/a", "/durable/"));
        CPPUNIT_ASSERT_EQUAL(string("channels/a"), below("/durable///channels/a", "/durable"));
    }

    void nothing_behind_the_prefix_is_changed() {
        CPPUNIT_ASSERT_EQUAL(string("channels//a%2fb/%2E%2e/../."), below("/d/channels//a%2fb/%2E%2e/../.", "/d/"));
    }

    void broken_escapes_match_nothing() {
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/%6", "/d/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/%", "/d/"));
        CPPUNIT_ASSERT_EQUAL(string("(not below)"), below("/%zz/", "/d/"));
        CPPUNIT_ASSERT_EQUAL(string("a"), below("/%zz/a", "/%zz/"));
    }

    void patterns_match_whole_paths() {
        CPPUNIT_ASSERT_EQUAL(string("(none)"), argument("section/result", "section/result"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("section", "section/result"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("section/result/", "section/result"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("", "section"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("a/a/a/a/a/a/a/a/a", "{}"));
    }

    void a_pattern_takes_any_one_segment() {
        CPPUNIT_ASSERT_EQUAL(string("a%2Fb"), argument("channels/a%2Fb/close", "channels/{}/close"));
        CPPUNIT_ASSERT_EQUAL(string(""), argument("channels//close", "channels/{}/close"));
        CPPUNIT_ASSERT_EQUAL(string(".."), argument("channels/..", "channels/{}"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("channels/a/b", "channels/{}"));
        CPPUNIT_ASSERT_EQUAL(string("(no match)"), argument("streams/a", "channels/{}"));
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(CallPathTest);

}  // namespace durable
