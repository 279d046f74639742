// SPDX-License-Identifier: BSD-2-Clause
// Framing as "Subscribed streams" of the interface and the HTML standard have it. The reader here is
// the standard's own algorithm for interpreting an event stream.
#include "core/sse_frame.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <random>
#include <string>
#include <vector>

#include "core/json_check.h"

namespace durable {

namespace {

using std::string;

struct ReadEvent {
    string id, type, data;
};

// Interprets a stream line by line; events without data are not dispatched.
class Reader {
public:
    explicit Reader(const string& stream) {
        std::size_t at = 0;
        while (at < stream.size()) {
            const std::size_t end = stream.find_first_of("\r\n", at);
            CPPUNIT_ASSERT_MESSAGE("the last line has no end", end != string::npos);
            CPPUNIT_ASSERT_MESSAGE("a carriage return was sent", stream[end] == '\n');
            read_line(stream.substr(at, end - at));
            at = end + 1;
        }
        CPPUNIT_ASSERT_MESSAGE("a block was not ended", is_at_block_start_);
    }

    std::vector<ReadEvent> events;
    string retry;

private:
    void read_line(const string& line) {
        is_at_block_start_ = line.empty();
        if (line.empty()) return dispatch();
        const std::size_t colon = line.find(':');
        if (colon == 0) return;
        const string name = line.substr(0, colon);
        string value = colon == string::npos ? "" : line.substr(colon + 1);
        if (!value.empty() && value[0] == ' ') value.erase(0, 1);
        if (name == "data") current_.data += value + '\n';
        if (name == "event") current_.type = value;
        if (name == "id") last_id_ = value;
        if (name == "retry") retry = value;
    }

    void dispatch() {
        if (!current_.data.empty()) {
            current_.data.pop_back();
            current_.id = last_id_;
            events.push_back(current_);
        }
        current_ = ReadEvent();
    }

    ReadEvent current_;
    string last_id_;
    bool is_at_block_start_ = true;
};

string frame(std::string_view text, std::string_view event = {}, std::string_view id = {}) {
    string out;
    append_message_frame(out, id, event, text);
    return out;
}

string with_line_feeds(const string& text) {
    string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
        out += text[i] == '\r' ? '\n' : text[i];
    }
    return out;
}

void assert_text_survives(const string& text) {
    const Reader reader(frame(text));
    CPPUNIT_ASSERT_EQUAL(std::size_t(1), reader.events.size());
    CPPUNIT_ASSERT_EQUAL(with_line_feeds(text), reader.events[0].data);
}

}  // namespace

class SseFrameTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(SseFrameTest);
    CPPUNIT_TEST(a_text_of_one_line_is_one_data_line);
    CPPUNIT_TEST(an_event_type_and_an_id_stand_before_the_data);
    CPPUNIT_TEST(an_empty_text_is_one_empty_data_line);
    CPPUNIT_TEST(cr_lf_and_crlf_each_end_a_line);
    CPPUNIT_TEST(a_text_that_ends_in_a_line_end_keeps_its_empty_last_line);
    CPPUNIT_TEST(lf_before_cr_is_two_line_ends);
    CPPUNIT_TEST(what_stands_behind_the_text_is_not_looked_at);
    CPPUNIT_TEST(a_leading_space_and_a_colon_survive);
    CPPUNIT_TEST(nul_and_multi_byte_characters_pass_byte_for_byte);
    CPPUNIT_TEST(largest_texts_survive);
    CPPUNIT_TEST(any_mixture_of_line_ends_survives);
    CPPUNIT_TEST(frames_are_appended);
    CPPUNIT_TEST(json_format_is_one_line_with_the_channel);
    CPPUNIT_TEST(json_format_without_an_event_type_has_null);
    CPPUNIT_TEST(json_format_escapes_line_ends_and_stays_json);
    CPPUNIT_TEST(close_carries_its_reason);
    CPPUNIT_TEST(backlog_is_an_event_that_a_browser_dispatches);
    CPPUNIT_TEST(gap_names_what_was_asked_and_what_comes_next);
    CPPUNIT_TEST(gap_survives_any_bytes_in_the_asked_id);
    CPPUNIT_TEST(retry_and_comments_are_no_events);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_text_of_one_line_is_one_data_line() { CPPUNIT_ASSERT_EQUAL(string("data: hello\n\n"), frame("hello")); }

    void an_event_type_and_an_id_stand_before_the_data() {
        CPPUNIT_ASSERT_EQUAL(string("id: e.7\nevent: chat\ndata: hi\n\n"), frame("hi", "chat", "e.7"));
    }

    void an_empty_text_is_one_empty_data_line() {  // C-4: empty is legal
        CPPUNIT_ASSERT_EQUAL(string("data: \n\n"), frame(""));
        assert_text_survives("");
    }

    void cr_lf_and_crlf_each_end_a_line() {
        const string expected = "data: a\ndata: b\n\n";
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\nb"));
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\rb"));
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\r\nb"));
    }

    void a_text_that_ends_in_a_line_end_keeps_its_empty_last_line() {
        const string expected = "data: a\ndata: \n\n";
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\n"));
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\r"));
        CPPUNIT_ASSERT_EQUAL(expected, frame("a\r\n"));
    }

    void lf_before_cr_is_two_line_ends() {
        CPPUNIT_ASSERT_EQUAL(string("data: a\ndata: \ndata: b\n\n"), frame("a\n\rb"));
    }

    void what_stands_behind_the_text_is_not_looked_at() {
        CPPUNIT_ASSERT_EQUAL(string("data: a\ndata: \n\n"), frame(std::string_view("a\r\n", 2)));
    }

    void a_leading_space_and_a_colon_survive() { assert_text_survives(" a\n  b\n: c\ndata: d\nevent: e"); }

    void nul_and_multi_byte_characters_pass_byte_for_byte() {  // C-27a
        assert_text_survives(string("a\0b\n\0", 5));
        assert_text_survives("\xEF\xBB\xBF 收摊 😀 \xE2\x80\xA8");
    }

    void largest_texts_survive() {
        assert_text_survives(string(65536, 'x'));
        assert_text_survives(string(65536, '\n'));
        assert_text_survives(string(65536, '\r'));
    }

    void any_mixture_of_line_ends_survives() {
        const string alphabet = "\r\n a";
        for (unsigned length = 1; length <= 7; ++length) {
            for (unsigned number = 0; number < 1u << (2 * length); ++number) {
                string text;
                for (unsigned i = 0; i < length; ++i) text += alphabet[number >> (2 * i) & 3];
                assert_text_survives(text);
            }
        }
    }

    void frames_are_appended() {
        string out;
        append_comment(out, "hello");
        append_message_frame(out, {}, {}, "a");
        append_message_frame(out, {}, {}, "b");
        CPPUNIT_ASSERT_EQUAL(string(": hello\n\ndata: a\n\ndata: b\n\n"), out);
    }

    void json_format_is_one_line_with_the_channel() {
        string out;
        append_json_message_frame(out, "e.1", "news", "sport", "1:0");
        CPPUNIT_ASSERT_EQUAL(
            string("id: e.1\nevent: sport\ndata: {\"channel\":\"news\",\"event\":\"sport\",\"text\":\"1:0\"}\n\n"),
            out);
    }

    void json_format_without_an_event_type_has_null() {
        string out;
        append_json_message_frame(out, {}, "c", {}, "");
        CPPUNIT_ASSERT_EQUAL(string("data: {\"channel\":\"c\",\"event\":null,\"text\":\"\"}\n\n"), out);
    }

    void json_format_escapes_line_ends_and_stays_json() {
        string out;
        append_json_message_frame(out, {}, "c", "\"\\", string("a\r\n\"\\\0", 6));
        const Reader reader(out);
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), reader.events.size());
        CPPUNIT_ASSERT_EQUAL(string(R"({"channel":"c","event":"\"\\","text":"a\r\n\"\\\u0000"})"),
                             reader.events[0].data);
        CPPUNIT_ASSERT(is_valid_json(reader.events[0].data));
    }

    void close_carries_its_reason() {  // C-25
        string out;
        append_close_frame(out, "收摊\r\nbye");
        CPPUNIT_ASSERT_EQUAL(string("event: durable-close\ndata: 收摊\ndata: bye\n\n"), out);
        out.clear();
        append_close_frame(out, "");
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), Reader(out).events.size());
    }

    void backlog_is_an_event_that_a_browser_dispatches() {  // C-27
        string out;
        append_backlog_frame(out);
        const Reader reader(out);
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), reader.events.size());
        CPPUNIT_ASSERT_EQUAL(string("durable-backlog"), reader.events[0].type);
    }

    void gap_names_what_was_asked_and_what_comes_next() {  // H-4
        string out;
        append_gap_frame(out, "old.3", "new.1");
        CPPUNIT_ASSERT_EQUAL(string("event: durable-gap\ndata: {\"asked\":\"old.3\",\"next\":\"new.1\"}\n\n"), out);
        out.clear();
        append_gap_frame(out, "old.3", "");
        CPPUNIT_ASSERT_EQUAL(string("event: durable-gap\ndata: {\"asked\":\"old.3\",\"next\":null}\n\n"), out);
    }

    void gap_survives_any_bytes_in_the_asked_id() {  // H-4: malformed
        string out;
        append_gap_frame(out, "\xFF\"\r\n\x01" + string(100000, 'x'), "");
        CPPUNIT_ASSERT(out.size() < 1000);
        const Reader reader(out);
        CPPUNIT_ASSERT_EQUAL(std::size_t(1), reader.events.size());
        CPPUNIT_ASSERT(is_valid_json(reader.events[0].data));
    }

    void retry_and_comments_are_no_events() {
        string out;
        append_retry(out, 2500);
        append_comment(out, "");
        append_comment(out, "ping");
        const Reader reader(out);
        CPPUNIT_ASSERT(reader.events.empty());
        CPPUNIT_ASSERT_EQUAL(string("2500"), reader.retry);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(SseFrameTest);

}  // namespace durable
