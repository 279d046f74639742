// SPDX-License-Identifier: BSD-2-Clause
#include "core/rate_window.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <algorithm>
#include <deque>
#include <random>

namespace durable {

class RateWindowTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(RateWindowTest);
    CPPUNIT_TEST(calls_up_to_the_limit_are_accepted);
    CPPUNIT_TEST(a_place_is_free_again_after_sixty_seconds);
    CPPUNIT_TEST(refused_calls_are_not_counted);
    CPPUNIT_TEST(a_withdrawn_call_frees_its_place);
    CPPUNIT_TEST(withdrawing_what_was_never_accepted_changes_nothing);
    CPPUNIT_TEST(a_clock_that_steps_back_frees_nothing);
    CPPUNIT_TEST(a_record_is_idle_sixty_seconds_after_its_last_call);
    CPPUNIT_TEST(any_sequence_agrees_with_a_plain_list);
    CPPUNIT_TEST_SUITE_END();

public:
    void calls_up_to_the_limit_are_accepted() {  // E-24
        RateWindowRecord<60> record;
        for (int i = 0; i < 60; ++i) CPPUNIT_ASSERT(rate_window_accept(record, 0));
        CPPUNIT_ASSERT(!rate_window_accept(record, 0));
    }

    void a_place_is_free_again_after_sixty_seconds() {  // E-24
        RateWindowRecord<2> record;
        CPPUNIT_ASSERT(rate_window_accept(record, 1000));
        CPPUNIT_ASSERT(rate_window_accept(record, 1500));
        CPPUNIT_ASSERT(!rate_window_accept(record, 60999));
        CPPUNIT_ASSERT(rate_window_accept(record, 61000));
        CPPUNIT_ASSERT(!rate_window_accept(record, 61499));
        CPPUNIT_ASSERT(rate_window_accept(record, 61500));
    }

    void refused_calls_are_not_counted() {  // E-24
        RateWindowRecord<1> record;
        CPPUNIT_ASSERT(rate_window_accept(record, 0));
        for (std::uint64_t now_ms = 1; now_ms < 60000; ++now_ms) CPPUNIT_ASSERT(!rate_window_accept(record, now_ms));
        CPPUNIT_ASSERT(rate_window_accept(record, 60000));
    }

    void a_withdrawn_call_frees_its_place() {  // E-24: refused for its content
        RateWindowRecord<3> record;
        for (std::uint64_t now_ms : {10, 20, 30}) CPPUNIT_ASSERT(rate_window_accept(record, now_ms));
        rate_window_withdraw(record, 20);
        CPPUNIT_ASSERT(rate_window_accept(record, 40));
        CPPUNIT_ASSERT(!rate_window_accept(record, 60009));
        CPPUNIT_ASSERT(rate_window_accept(record, 60010));
        CPPUNIT_ASSERT(!rate_window_accept(record, 60029));
        CPPUNIT_ASSERT(rate_window_accept(record, 60030));
    }

    void withdrawing_what_was_never_accepted_changes_nothing() {
        RateWindowRecord<2> record;
        rate_window_withdraw(record, 0);
        CPPUNIT_ASSERT(rate_window_accept(record, 10));
        rate_window_withdraw(record, 11);
        CPPUNIT_ASSERT(rate_window_accept(record, 20));
        CPPUNIT_ASSERT(!rate_window_accept(record, 30));
    }

    void a_clock_that_steps_back_frees_nothing() {
        RateWindowRecord<1> record;
        CPPUNIT_ASSERT(rate_window_accept(record, 1000));
        CPPUNIT_ASSERT(!rate_window_accept(record, 990));
        CPPUNIT_ASSERT(!rate_window_is_idle(record, 990));
    }

    void a_record_is_idle_sixty_seconds_after_its_last_call() {
        RateWindowRecord<2> record;
        CPPUNIT_ASSERT(rate_window_is_idle(record, 0));
        for (std::uint64_t now_ms : {0, 10, 60000}) CPPUNIT_ASSERT(rate_window_accept(record, now_ms));
        CPPUNIT_ASSERT(!rate_window_is_idle(record, 119999));
        CPPUNIT_ASSERT(rate_window_is_idle(record, 120000));
    }

    void any_sequence_agrees_with_a_plain_list() {  // E-24
        std::mt19937 random(7);
        RateWindowRecord<5> record;
        std::deque<std::uint64_t> accepted_ms;
        std::uint64_t now_ms = 0;
        for (int i = 0; i < 20000; ++i) {
            now_ms += random() % 20000;
            if (random() % 8 == 0 && !accepted_ms.empty()) {
                const auto at = accepted_ms.begin() + random() % accepted_ms.size();
                const auto last_equal = std::upper_bound(at, accepted_ms.end(), *at) - 1;
                rate_window_withdraw(record, *at);
                accepted_ms.erase(last_equal);
            }
            while (!accepted_ms.empty() && accepted_ms.front() + 60000 <= now_ms) accepted_ms.pop_front();
            const bool expected = accepted_ms.size() < 5;
            CPPUNIT_ASSERT_EQUAL(expected, rate_window_accept(record, now_ms));
            if (expected) accepted_ms.push_back(now_ms);
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(RateWindowTest);

}  // namespace durable
