// SPDX-License-Identifier: BSD-2-Clause
#include "core/line.h"

#include <string>
#include <vector>

#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

class LineTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(LineTest);
    CPPUNIT_TEST(a_free_object_holds_nobody);
    CPPUNIT_TEST(sections_run_one_after_another_in_order);
    CPPUNIT_TEST(held_events_and_sections_stand_in_one_line);
    CPPUNIT_TEST(other_objects_are_not_held);
    CPPUNIT_TEST(a_grant_wakes_its_worker_once);
    CPPUNIT_TEST(held_ones_go_in_bounded_batches);
    CPPUNIT_TEST(one_that_waits_may_withdraw);
    CPPUNIT_TEST(a_granted_one_may_withdraw_unseen);
    CPPUNIT_TEST(a_full_line_refuses);
    CPPUNIT_TEST(a_dead_workers_section_lets_the_next_go);
    CPPUNIT_TEST(a_dead_workers_waiting_ones_are_taken_out);
    CPPUNIT_TEST(a_dead_workers_granted_ones_do_not_stop_the_line);
    CPPUNIT_TEST(a_call_waits_for_a_section_that_is_not_its_own);
    CPPUNIT_TEST(a_section_knows_its_events_token);
    CPPUNIT_TEST(an_event_that_ends_withdraws_its_waiting_sections);
    CPPUNIT_TEST(a_grant_that_was_not_seen_is_withdrawn_too);
    CPPUNIT_TEST(an_event_that_is_over_asks_for_nothing);
    CPPUNIT_TEST(the_time_that_sections_wait_is_their_events);
    CPPUNIT_TEST(entering_survives_each_failed_allocation);
    CPPUNIT_TEST(waiting_survives_each_failed_allocation);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_free_object_holds_nobody() {
        const LineResult held = one.enter(LineKind::held, 1);
        CPPUNIT_ASSERT(held.outcome == LineOutcome::passed);
        CPPUNIT_ASSERT(held.entry == nullptr);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
        const LineResult section = one.enter(LineKind::section, 2);
        CPPUNIT_ASSERT(section.outcome == LineOutcome::granted);
        check();
        one.leave(section.entry);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void sections_run_one_after_another_in_order() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        CPPUNIT_ASSERT(two.enter(LineKind::section, 2).outcome == LineOutcome::waiting);
        CPPUNIT_ASSERT(one.enter(LineKind::section, 3).outcome == LineOutcome::waiting);
        CPPUNIT_ASSERT(two.granted() == nullptr);
        one.leave(running);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string(), tickets(one));
        LineEntryRecord* second = two.granted();
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{2}, second->ticket);
        CPPUNIT_ASSERT(second->state == LineState::granted);
        two.leave(second);
        CPPUNIT_ASSERT_EQUAL(std::string("3 "), tickets(one));
    }

    void held_events_and_sections_stand_in_one_line() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        for (std::uint64_t ticket = 2; ticket <= 3; ++ticket) one.enter(LineKind::held, ticket);
        one.enter(LineKind::section, 4);
        one.enter(LineKind::held, 5);
        one.leave(running);
        check();
        std::vector<LineEntryRecord*> granted;
        while (LineEntryRecord* entry = one.granted()) granted.push_back(entry);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("those before the section, and the section", std::size_t{3}, granted.size());
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{2}, granted[0]->ticket);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{3}, granted[1]->ticket);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{4}, granted[2]->ticket);
        one.leave(granted[0]);
        one.leave(granted[1]);
        CPPUNIT_ASSERT_EQUAL(std::string(), tickets(one));
        CPPUNIT_ASSERT_MESSAGE("behind those that wait", two.enter(LineKind::held, 6).outcome == LineOutcome::waiting);
        one.leave(granted[2]);
        CPPUNIT_ASSERT_EQUAL(std::string("5 "), tickets(one));
        CPPUNIT_ASSERT_EQUAL(std::string("6 "), tickets(two));
    }

    void other_objects_are_not_held() {
        one.enter(LineKind::section, 1);
        CPPUNIT_ASSERT(one.enter(LineKind::held, 2, 1000, "other").outcome == LineOutcome::passed);
        CPPUNIT_ASSERT(one.enter(LineKind::section, 3, 1000, "other").outcome == LineOutcome::granted);
    }

    void a_grant_wakes_its_worker_once() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        two.enter(LineKind::held, 2);
        two.enter(LineKind::held, 3);
        one.enter(LineKind::held, 4);
        one.leave(running);
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
        CPPUNIT_ASSERT(one.wakes.self);
    }

    void held_ones_go_in_bounded_batches() {
        LineEntryRecord* running = one.enter(LineKind::section, 0).entry;
        for (std::uint64_t ticket = 1; ticket <= 150; ++ticket) two.enter(LineKind::held, ticket);
        three.enter(LineKind::section, 151);
        one.leave(running);
        check();
        std::vector<LineEntryRecord*> granted;
        while (LineEntryRecord* entry = two.granted()) granted.push_back(entry);
        CPPUNIT_ASSERT_EQUAL(std::size_t{64}, granted.size());
        CPPUNIT_ASSERT_MESSAGE("nobody passes those who still wait",
                               one.enter(LineKind::held, 152).outcome == LineOutcome::waiting);
        for (std::size_t i = 0; i < granted.size(); ++i) {
            CPPUNIT_ASSERT_EQUAL(i + 1, static_cast<std::size_t>(granted[i]->ticket));
            two.leave(granted[i]);
            while (LineEntryRecord* entry = two.granted()) granted.push_back(entry);
        }
        CPPUNIT_ASSERT_EQUAL(std::size_t{150}, granted.size());
        CPPUNIT_ASSERT_EQUAL(std::string("151 "), tickets(three));
    }

    void one_that_waits_may_withdraw() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        LineEntryRecord* second = two.enter(LineKind::section, 2).entry;
        one.enter(LineKind::section, 3);
        two.leave(second);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string(), tickets(one));
        one.leave(running);
        CPPUNIT_ASSERT_EQUAL(std::string("3 "), tickets(one));
        CPPUNIT_ASSERT_EQUAL(std::string(), tickets(two));
    }

    void a_granted_one_may_withdraw_unseen() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        LineEntryRecord* second = two.enter(LineKind::section, 2).entry;
        two.enter(LineKind::section, 3);
        one.leave(running);
        two.leave(second);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("3 "), tickets(two));
    }

    void a_full_line_refuses() {  // X-16b
        CPPUNIT_ASSERT(one.enter(LineKind::section, 1, 0).outcome == LineOutcome::granted);
        CPPUNIT_ASSERT(one.enter(LineKind::section, 2, 0).outcome == LineOutcome::full);
        LineEntryRecord* second = one.enter(LineKind::held, 2, 2).entry;
        CPPUNIT_ASSERT(two.enter(LineKind::section, 3, 2).outcome == LineOutcome::waiting);
        const std::size_t before = memory.live_blocks();
        CPPUNIT_ASSERT(one.enter(LineKind::held, 4, 2).outcome == LineOutcome::full);
        CPPUNIT_ASSERT(two.enter(LineKind::section, 4, 2).outcome == LineOutcome::full);
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        one.leave(second);
        CPPUNIT_ASSERT(two.enter(LineKind::section, 4, 2).outcome == LineOutcome::waiting);
    }

    void a_dead_workers_section_lets_the_next_go() {
        LineEntryRecord* entry = one.enter(LineKind::section, 1).entry;
        const EventToken token = one.bind(1, "object", entry);
        two.enter(LineKind::section, 2);
        three.locked([&](ZoneLock& lock) {
            forget_worker(lock, one.self().slot);
            CPPUNIT_ASSERT_MESSAGE("its event is over first", find_event(lock, token) == nullptr);
        });
        check();
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(three.wakes.count));
        CPPUNIT_ASSERT_EQUAL(std::string("2 "), tickets(two));
        expect_nothing_left();
    }

    void a_dead_workers_waiting_ones_are_taken_out() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        two.enter(LineKind::section, 2);
        two.enter(LineKind::held, 3);
        one.enter(LineKind::section, 4);
        one.locked([&](ZoneLock& lock) { forget_worker(lock, two.self().slot); });
        check();
        CPPUNIT_ASSERT_EQUAL(std::string(), tickets(one));
        one.leave(running);
        CPPUNIT_ASSERT_EQUAL(std::string("4 "), tickets(one));
    }

    void a_dead_workers_granted_ones_do_not_stop_the_line() {
        LineEntryRecord* running = one.enter(LineKind::section, 0).entry;
        for (std::uint64_t ticket = 1; ticket <= 100; ++ticket) two.enter(LineKind::held, ticket);
        two.enter(LineKind::section, 101);
        one.enter(LineKind::held, 102);
        one.leave(running);
        one.locked([&](ZoneLock& lock) { forget_worker(lock, two.self().slot); });
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("102 "), tickets(one));
    }

    void a_call_waits_for_a_section_that_is_not_its_own() {
        LineEntryRecord* entry = one.enter(LineKind::section, 1).entry;
        const EventToken inside = one.bind(1, "object", entry);
        const EventToken outside = two.bind(2);
        two.locked([&](ZoneLock& lock) {
            const ObjectRecord& object = *find_object(lock, "object");
            CPPUNIT_ASSERT(!must_wait(object, find_event(lock, inside)));
            CPPUNIT_ASSERT(must_wait(object, find_event(lock, outside)));
            CPPUNIT_ASSERT(must_wait(object, nullptr));
        });
        one.leave(entry);
        two.locked([&](ZoneLock& lock) { CPPUNIT_ASSERT(!must_wait(*find_object(lock, "object"), nullptr)); });
    }

    void a_section_knows_its_events_token() {  // X-14a
        EventToken token;
        token.random[0] = 1;
        LineEntryRecord* entry = one.enter(LineKind::section, 1).entry;
        entry->token = token;
        EventToken other = token;
        other.random[15] = 1;
        two.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(runs_section_of(lock, "object", token));
            CPPUNIT_ASSERT(!runs_section_of(lock, "object", other));
            CPPUNIT_ASSERT(!runs_section_of(lock, "other", token));
        });
        one.leave(entry);
        two.locked([&](ZoneLock& lock) { CPPUNIT_ASSERT(!runs_section_of(lock, "object", token)); });
    }

    void an_event_that_ends_withdraws_its_waiting_sections() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        const LineCaller caller{one.bind(1), 0};
        two.enter_for(caller, 2);
        one.enter_for(caller, 3);
        two.enter(LineKind::section, 4);
        one.locked([&](ZoneLock& lock) { end_event(lock, *find_event(lock, caller.token)); });
        check();
        LineEntryRecord* withdrawn = two.granted();
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{2}, withdrawn->ticket);
        CPPUNIT_ASSERT(!two.end_wait(withdrawn, 0));
        two.leave(withdrawn);
        two.locked([&](ZoneLock& lock) { forget_worker(lock, one.self().slot); });
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("4 "), tickets(two));
        (void)running;
    }

    void a_grant_that_was_not_seen_is_withdrawn_too() {
        LineEntryRecord* running = one.enter(LineKind::section, 1).entry;
        const LineCaller caller{one.bind(1), 0};
        LineEntryRecord* second = two.enter_for(caller, 2).entry;
        one.enter(LineKind::section, 3);
        one.leave(running);
        one.locked([&](ZoneLock& lock) { end_event(lock, *find_event(lock, caller.token)); });
        check();
        CPPUNIT_ASSERT_EQUAL_MESSAGE("the next one runs", std::string("3 "), tickets(one));
        CPPUNIT_ASSERT(two.granted() == second);
        CPPUNIT_ASSERT(!two.end_wait(second, 0));
        two.leave(second);
        check();
    }

    void an_event_that_is_over_asks_for_nothing() {
        const LineCaller nobody{EventToken(), 0};
        CPPUNIT_ASSERT(one.enter_for(nobody, 1).outcome == LineOutcome::event_over);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void the_time_that_sections_wait_is_their_events() {
        one.enter(LineKind::section, 1);
        const EventToken token = one.bind(1);
        const auto queued_time = [&](std::uint64_t now_ms) {
            return two.locked([&](ZoneLock& lock) { return take_queued_time(*find_event(lock, token), now_ms); });
        };
        LineEntryRecord* first = two.enter_for({token, 100}, 2).entry;
        LineEntryRecord* second = one.enter_for({token, 150}, 3).entry;
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{60}, queued_time(160));
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{10}, queued_time(170));
        CPPUNIT_ASSERT(two.end_wait(first, 180));
        CPPUNIT_ASSERT(two.end_wait(first, 185));
        CPPUNIT_ASSERT(one.end_wait(second, 200));
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{30}, queued_time(1000));
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{0}, queued_time(2000));
        check();
    }

    void entering_survives_each_failed_allocation() {
        fail_each_allocation([&] { return one.enter(LineKind::section, 1).outcome == LineOutcome::granted; });
    }

    void waiting_survives_each_failed_allocation() {
        one.enter(LineKind::section, 1);
        fail_each_allocation([&] { return two.enter(LineKind::held, 2).outcome == LineOutcome::waiting; });
    }

private:
    // Takes all that is granted to the worker; their tickets.
    std::string tickets(Worker& worker) {
        std::string out;
        while (LineEntryRecord* entry = worker.granted()) out += std::to_string(entry->ticket) + ' ';
        return out;
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(LineTest);

}  // namespace

}  // namespace durable
