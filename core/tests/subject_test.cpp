// SPDX-License-Identifier: BSD-2-Clause
#include "core/subject.h"

#include <cppunit/extensions/HelperMacros.h>

namespace {

using durable::EventSubject;
using durable::SubjectOutcome;

struct GlobCase {
    const char* pattern;
    const char* path;
    bool matches;
};

// E-16 as a truth table.
constexpr GlobCase kGlobCases[] = {
    {"*", "a", true},
    {"*", "a/b", false},
    {"*", "", false},
    {"*.txt", "a.txt", true},
    {"*.txt", ".txt", true},
    {"*.txt", "a.txt.gz", false},
    {"*.txt", "a/b.txt", false},
    {"*.txt", "a.TXT", false},
    {"a*", "a", true},
    {"a*b", "ab", true},
    {"a*b", "a", false},
    {"a*a", "a", false},
    {"a*b", "axxb", true},
    {"a*b", "a/b", false},
    {"?", "a", true},
    {"?", "é", true},
    {"?", "ab", false},
    {"?", "/", false},
    {"??", "é", false},
    {"a?c", "abc", true},
    {"a?c", "a/c", false},
    {"*?", "", false},
    {"*?", "a", true},
    {"?*é", "日é", true},
    {"**", "a", true},
    {"**", "a/b/c", true},
    {"**", "", false},
    {"a/**", "a", false},
    {"a/**", "a/b", true},
    {"a/**", "a/b/c", true},
    {"a/**", "b/c", false},
    {"**/c", "c", true},
    {"**/c", "a/c", true},
    {"**/c", "a/b/c", true},
    {"**/c", "a/cc", false},
    {"a/**/c", "a/c", true},
    {"a/**/c", "a/x/y/c", true},
    {"a/**/c", "c", false},
    {"a/**/*.h", "a/x/y.h", true},
    {"a/**/*.h", "a/y.h", true},
    {"a/**/a", "a", false},
    {"[ab]", "a", false},
    {"[ab]*", "[ab]c", true},
    {"{a,b}*", "a", false},
    {"\\*", "\\x", true},
    {"*/x", "a/x", true},
    {"*/x", "a/b/x", false},
    {"a/*/c/**", "a/b/c/d", true},
    {"a/*/c/**", "a/b/c", false},
};

class SubjectTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(SubjectTest);
    CPPUNIT_TEST(topics_are_exact_or_end_in_a_star_E_14);
    CPPUNIT_TEST(paths_are_cut_before_the_first_wildcard_segment_E_15);
    CPPUNIT_TEST(paths_must_be_absolute_and_normalised_E_15);
    CPPUNIT_TEST(a_move_is_tested_at_both_places_E_15);
    CPPUNIT_TEST(globs_follow_the_truth_table_E_16);
    CPPUNIT_TEST(globs_have_limits_E_16);
    CPPUNIT_TEST(anything_else_is_refused_E_17);
    CPPUNIT_TEST(tokens_find_every_match_and_little_else_E_18);
    CPPUNIT_TEST(published_subjects_name_one_thing_E_26);
    CPPUNIT_TEST_SUITE_END();

    static SubjectOutcome outcome_of(const std::string& text) { return durable::parse_subject(text).outcome; }

    static bool wants(const std::string& subject, const EventSubject& event) {
        const auto parsed = durable::parse_subject(subject);
        CPPUNIT_ASSERT_MESSAGE(subject, parsed.outcome == SubjectOutcome::ok);
        return durable::matches(parsed.subject, event);
    }

    static EventSubject topic(const std::string& name) { return {true, name, "", ""}; }
    static EventSubject file(const std::string& path, const std::string& op = "write", const std::string& from = "") {
        return {false, path, from, op};
    }

public:
    // E-14
    void topics_are_exact_or_end_in_a_star_E_14() {
        CPPUNIT_ASSERT(wants("topic:a:b", topic("a:b")));
        CPPUNIT_ASSERT(!wants("topic:a:b", topic("a:b:c")));
        CPPUNIT_ASSERT(wants("topic:a:*", topic("a:b:c")));
        CPPUNIT_ASSERT(!wants("topic:a:*", topic("a")));
        CPPUNIT_ASSERT(wants("topic:a*", topic("ab")));
        CPPUNIT_ASSERT(wants("topic:*", topic("anything")));
        CPPUNIT_ASSERT(!wants("topic:*", file("/a")));
        for (const char* bad : {"topic:a*b", "topic:*a", "topic:a**", "topic:a?", "topic:?*", "topic:a:*:b"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, outcome_of(bad) == SubjectOutcome::invalid_subject_pattern);
        }
    }

    // E-15
    void paths_are_cut_before_the_first_wildcard_segment_E_15() {
        const auto globbed = durable::parse_subject("fs:/a/b/x*/c:add").subject;
        CPPUNIT_ASSERT_EQUAL(std::string("/a/b"), globbed.name);
        CPPUNIT_ASSERT_EQUAL(std::string("x*/c"), globbed.pattern);
        CPPUNIT_ASSERT_EQUAL(std::string("add"), globbed.op);
        const auto root = durable::parse_subject("fs:/*").subject;
        CPPUNIT_ASSERT_EQUAL(std::string("/"), root.name);
        CPPUNIT_ASSERT(wants("fs:/a", file("/a")));
        CPPUNIT_ASSERT(wants("fs:/a", file("/a/b/c")));
        CPPUNIT_ASSERT(!wants("fs:/a", file("/ab")));
        CPPUNIT_ASSERT(wants("fs:/", file("/a")));
        CPPUNIT_ASSERT(wants("fs:/*", file("/a")));
        CPPUNIT_ASSERT(!wants("fs:/*", file("/a/b")));
        CPPUNIT_ASSERT(!wants("fs:/a/**", file("/a")));
        CPPUNIT_ASSERT(wants("fs:/a:add", file("/a/b", "add")));
        CPPUNIT_ASSERT(!wants("fs:/a:add", file("/a/b", "write")));
        CPPUNIT_ASSERT(wants("fs:/a/x:y:write", file("/a/x:y")));
        CPPUNIT_ASSERT(outcome_of("fs:/a:append") == SubjectOutcome::invalid_subject_op);
        CPPUNIT_ASSERT(outcome_of("fs:/a:") == SubjectOutcome::invalid_subject_op);
        CPPUNIT_ASSERT(outcome_of("fs:/a:ADD") == SubjectOutcome::invalid_subject_op);
    }

    // E-15
    void paths_must_be_absolute_and_normalised_E_15() {
        for (const char* bad : {"fs:", "fs:a", "fs://", "fs://a", "fs:/a//b", "fs:/a/./b", "fs:/a/..", "fs:/.",
                                "fs:/a//", "fs:~/a", "fs::add", "fs:/a//*"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, outcome_of(bad) == SubjectOutcome::invalid_subject);
        }
        CPPUNIT_ASSERT(outcome_of("fs:/a/...") == SubjectOutcome::ok);
        CPPUNIT_ASSERT_EQUAL(std::string("/a"), durable::parse_subject("fs:/a/").subject.name);
    }

    // E-15
    void a_move_is_tested_at_both_places_E_15() {
        CPPUNIT_ASSERT(wants("fs:/from", file("/to/x", "move", "/from/x")));
        CPPUNIT_ASSERT(wants("fs:/to", file("/to/x", "move", "/from/x")));
        CPPUNIT_ASSERT(!wants("fs:/else", file("/to/x", "move", "/from/x")));
        CPPUNIT_ASSERT(wants("fs:/from/*:move", file("/to/x", "move", "/from/x")));
    }

    // E-16
    void globs_follow_the_truth_table_E_16() {
        for (const GlobCase& row : kGlobCases) {
            const std::string name = std::string(row.pattern) + " against " + row.path;
            CPPUNIT_ASSERT_EQUAL_MESSAGE(name, row.matches, durable::glob_matches(row.pattern, row.path));
        }
    }

    // E-16
    void globs_have_limits_E_16() {
        const std::string longest = "*" + std::string(255, 'a');
        CPPUNIT_ASSERT(outcome_of("fs:/x/" + longest) == SubjectOutcome::ok);
        CPPUNIT_ASSERT(outcome_of("fs:/x/" + longest + "a") == SubjectOutcome::invalid_subject_pattern);
        std::string characters = "fs:/x/*";
        for (int i = 0; i < 255; ++i) characters += "é";
        CPPUNIT_ASSERT(outcome_of(characters) == SubjectOutcome::ok);
        std::string segments = "fs:/x/*";
        for (int i = 1; i < 16; ++i) segments += "/s";
        CPPUNIT_ASSERT(outcome_of(segments) == SubjectOutcome::ok);
        CPPUNIT_ASSERT(outcome_of(segments + "/s") == SubjectOutcome::invalid_subject_pattern);
        for (const char* bad : {"fs:/**/a/**", "fs:/a*b*", "fs:/a**", "fs:/***", "fs:/**a"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, outcome_of(bad) == SubjectOutcome::invalid_subject_pattern);
        }
        CPPUNIT_ASSERT(outcome_of("fs:/*/*/**/?*") == SubjectOutcome::ok);
    }

    // E-17
    void anything_else_is_refused_E_17() {
        using namespace std::string_literals;
        for (const std::string& bad : {""s, "topic:"s, "topic"s, "kv:a"s, "Topic:a"s, " topic:a"s, "topic:a\n"s,
                                       "topic:a\x7f"s, "topic:\xC2\x85"s, "topic:a\0b"s, "fs:/a\tb"s}) {
            CPPUNIT_ASSERT_MESSAGE(bad, outcome_of(bad) == SubjectOutcome::invalid_subject);
        }
        CPPUNIT_ASSERT(outcome_of("topic:" + std::string(4090, 'a')) == SubjectOutcome::ok);
        CPPUNIT_ASSERT(outcome_of("topic:" + std::string(4091, 'a')) == SubjectOutcome::invalid_subject);
        CPPUNIT_ASSERT(outcome_of("topic:\xC2\xA0") == SubjectOutcome::ok);
    }

    // E-18
    void tokens_find_every_match_and_little_else_E_18() {
        const std::vector<std::string> topic_tokens = {"ta:b", "p", "pa:"};
        CPPUNIT_ASSERT(topic_tokens == durable::match_tokens(topic("a:b"), {0, 2, 9}));
        const std::vector<std::string> path_tokens = {"f/", "f/a", "f/a/b"};
        CPPUNIT_ASSERT(path_tokens == durable::match_tokens(file("/a/b"), {}));
        const std::vector<std::string> move_tokens = {"f/", "f/a", "f/a/b", "f/c"};
        CPPUNIT_ASSERT(move_tokens == durable::match_tokens(file("/a/b", "move", "/c"), {}));
        CPPUNIT_ASSERT_EQUAL(std::string("pa:"), durable::match_token(durable::parse_subject("topic:a:*").subject));
        CPPUNIT_ASSERT_EQUAL(std::string("f/a"), durable::match_token(durable::parse_subject("fs:/a/*").subject));
        CPPUNIT_ASSERT(std::vector<std::string>{"f/"} == durable::match_tokens(file("/"), {}));
    }

    // E-26
    void published_subjects_name_one_thing_E_26() {
        const auto parsed = durable::parse_event_subject("fs:/a/b:c.txt:write");
        CPPUNIT_ASSERT(parsed.outcome == SubjectOutcome::ok);
        CPPUNIT_ASSERT_EQUAL(std::string("/a/b:c.txt"), parsed.subject.name);
        CPPUNIT_ASSERT_EQUAL(std::string("fs:/a/b:c.txt:write"), durable::event_subject_text(parsed.subject));
        CPPUNIT_ASSERT(durable::parse_event_subject("fs:/a").outcome == SubjectOutcome::invalid_subject_op);
        CPPUNIT_ASSERT(durable::parse_event_subject("fs:a:write").outcome == SubjectOutcome::invalid_subject);
        CPPUNIT_ASSERT(durable::parse_event_subject("topic:a*").outcome == SubjectOutcome::invalid_subject_pattern);
        CPPUNIT_ASSERT(durable::parse_event_subject("fs:/a*:write").outcome == SubjectOutcome::ok);
        CPPUNIT_ASSERT(durable::parse_event_subject("fs:/dir/", "add").subject.name == "/dir");
        CPPUNIT_ASSERT(durable::parse_event_subject("topic:a", "made").subject.op == "made");
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(SubjectTest);

}  // namespace
