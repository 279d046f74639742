// SPDX-License-Identifier: BSD-2-Clause
#include "core/http_answer.h"

#include <cppunit/extensions/HelperMacros.h>

namespace {

using State = durable::HttpAnswer::State;

class HttpAnswerTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(HttpAnswerTest);
    CPPUNIT_TEST(an_answer_may_come_in_single_bytes);
    CPPUNIT_TEST(bodies_end_by_length_by_chunk_or_by_close);
    CPPUNIT_TEST(interim_answers_are_skipped);
    CPPUNIT_TEST(what_is_no_answer_is_broken);
    CPPUNIT_TEST(sizes_are_bounded);
    CPPUNIT_TEST_SUITE_END();

    static State feed_all(durable::HttpAnswer& answer, std::string_view text) {
        State state = State::more;
        for (std::size_t i = 0; i < text.size() && state == State::more; ++i) state = answer.feed(text.substr(i, 1));
        return state;
    }

public:
    void an_answer_may_come_in_single_bytes() {
        durable::HttpAnswer answer(1000, 1000);
        CPPUNIT_ASSERT(feed_all(answer, "HTTP/1.1 429 Slow Down\r\nretry-AFTER:  12 \r\nContent-Length: 2\r\n\r\no") ==
                       State::more);
        CPPUNIT_ASSERT_EQUAL(429, answer.status());
        CPPUNIT_ASSERT_EQUAL(std::string("12"), answer.retry_after());
        CPPUNIT_ASSERT(answer.feed("k") == State::complete);
    }

    void bodies_end_by_length_by_chunk_or_by_close() {
        const std::pair<const char*, State> rows[] = {
            {"HTTP/1.1 204 No Content\r\n\r\n", State::complete},
            {"HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n", State::complete},
            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", State::complete},
            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", State::complete},
            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", State::more},
            {"HTTP/1.1 200 OK\r\n\r\nuntil it closes", State::more},
        };
        for (const auto& [text, state] : rows) {
            durable::HttpAnswer pieces(1000, 1000);
            CPPUNIT_ASSERT_MESSAGE(text, feed_all(pieces, text) == state);
            durable::HttpAnswer whole(1000, 1000);
            CPPUNIT_ASSERT_MESSAGE(text, whole.feed(text) == state);
        }
    }

    void interim_answers_are_skipped() {
        durable::HttpAnswer answer(1000, 1000);
        CPPUNIT_ASSERT(answer.feed("HTTP/1.1 100 Continue\r\n\r\n") == State::more);
        CPPUNIT_ASSERT_EQUAL(0, answer.status());
        CPPUNIT_ASSERT(answer.feed("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 Done\r\n\r\n") ==
                       State::complete);
        CPPUNIT_ASSERT_EQUAL(204, answer.status());
    }

    void what_is_no_answer_is_broken() {
        for (const char* text :
             {"SSH-2.0-x\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n",
              "HTTP/1.1 099 Low\r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "\r\n\r\n"}) {
            durable::HttpAnswer answer(1000, 1000);
            CPPUNIT_ASSERT_MESSAGE(text, answer.feed(text) == State::broken);
            CPPUNIT_ASSERT_EQUAL(0, answer.status());
        }
    }

    void sizes_are_bounded() {
        durable::HttpAnswer head(100, 100);
        CPPUNIT_ASSERT(head.feed("HTTP/1.1 200 OK\r\nX: " + std::string(200, 'x')) == State::broken);
        durable::HttpAnswer body(100, 100);
        CPPUNIT_ASSERT(body.feed("HTTP/1.1 200 OK\r\n\r\n" + std::string(99, 'x')) == State::more);
        CPPUNIT_ASSERT(body.feed("x") == State::complete);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(HttpAnswerTest);

}  // namespace
