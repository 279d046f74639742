// SPDX-License-Identifier: BSD-2-Clause
#include "core/event.h"

#include <set>
#include <string>

#include "core/event_token.h"
#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

class EventTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(EventTest);
    CPPUNIT_TEST(messages_wait_for_their_subscription);
    CPPUNIT_TEST(a_handle_works_only_in_its_event);
    CPPUNIT_TEST(handles_are_never_given_twice);
    CPPUNIT_TEST(cancelling_is_idempotent);
    CPPUNIT_TEST(cancelling_what_is_over_changes_nothing);
    CPPUNIT_TEST(an_events_end_cancels_all_it_made);
    CPPUNIT_TEST(an_events_end_wakes_who_waits_for_it);
    CPPUNIT_TEST(waits_answer_message_close_and_backlog);
    CPPUNIT_TEST(status_2_is_final);
    CPPUNIT_TEST(a_wait_shows_in_the_subscription);
    CPPUNIT_TEST(a_message_is_taken_only_by_taking_it);
    CPPUNIT_TEST(the_257th_subscription_is_refused);
    CPPUNIT_TEST(an_event_is_found_by_its_whole_token);
    CPPUNIT_TEST(a_dead_worker_leaves_no_subscription);
    CPPUNIT_TEST(a_section_and_its_event_know_each_other);
    CPPUNIT_TEST(binding_survives_each_failed_allocation);
    CPPUNIT_TEST(subscribing_survives_each_failed_allocation);
    CPPUNIT_TEST(tokens_are_written_and_read);
    CPPUNIT_TEST_SUITE_END();

public:
    void messages_wait_for_their_subscription() {  // C-11, C-16, sample 1 and 2
        const EventToken a = one.bind(1);
        CPPUNIT_ASSERT_EQUAL(0u, two.publish("c", "before").delivered);
        const auto handle = one.subscribe(a, "c").handle;
        CPPUNIT_ASSERT_EQUAL(1u, two.publish("c", "a").delivered);
        CPPUNIT_ASSERT_EQUAL(1u, two.publish("c", "b").delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("message:a"), one.poll(a, handle));
        CPPUNIT_ASSERT_EQUAL(std::string("message:b"), three.poll(a, handle));
        CPPUNIT_ASSERT_EQUAL(std::string("nothing"), one.poll(a, handle));
        one.end(a);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void a_handle_works_only_in_its_event() {  // C-12
        const EventToken a = one.bind(1);
        const EventToken b = two.bind(2);
        const auto handle = one.subscribe(a, "c").handle;
        two.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, b), handle) == nullptr);
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, a), handle + 1) == nullptr);
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, a), 0) == nullptr);
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, a), handle) != nullptr);
        });
    }

    void handles_are_never_given_twice() {  // C-12
        const EventToken a = one.bind(1);
        std::set<std::uint64_t> handles;
        for (int i = 0; i < 200; ++i) {
            const auto handle = one.subscribe(a, "c").handle;
            CPPUNIT_ASSERT(handles.insert(handle).second);
            one.locked([&](ZoneLock& lock) {
                free_subscription(lock, *find_subscription(lock, *find_event(lock, a), handle));
            });
        }
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
    }

    void cancelling_is_idempotent() {  // C-13
        const EventToken a = one.bind(1);
        const auto handle = one.subscribe(a, "c").handle;
        two.publish("c", "queued");
        for (int i = 0; i < 2; ++i) {
            one.cancel(a, handle);
            check();
            CPPUNIT_ASSERT_EQUAL(std::string("cancelled"), one.poll(a, handle));
            CPPUNIT_ASSERT_EQUAL(std::string("cancelled"), two.poll(a, handle));
            CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
        }
    }

    void cancelling_what_is_over_changes_nothing() {  // C-13, C-21
        const EventToken a = one.bind(1);
        const auto closed = one.subscribe(a, "c").handle;
        const auto dropped = one.subscribe(a, "d").handle;
        two.close("c", "over");
        overrun("d");
        one.cancel(a, closed);
        one.cancel(a, dropped);
        CPPUNIT_ASSERT_EQUAL(std::string("closed:over"), one.poll(a, closed));
        CPPUNIT_ASSERT_EQUAL(std::string("backlog"), one.poll(a, dropped));
    }

    void an_events_end_cancels_all_it_made() {  // C-14
        const EventToken a = one.bind(1);
        const EventToken b = one.bind(2);
        for (int i = 0; i < 10; ++i) one.subscribe(a, "c" + std::to_string(i % 3));
        one.subscribe(b, "c0");
        two.publish("c1", "queued");
        one.end(a);
        check();
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c0"));
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c1"));
        one.locked([&](ZoneLock& lock) { CPPUNIT_ASSERT(find_event(lock, a) == nullptr); });
        one.end(b);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void an_events_end_wakes_who_waits_for_it() {  // C-14, C-13
        const EventToken a = one.bind(1);
        wait_at_two(a, one.subscribe(a, "c").handle);
        one.end(a);
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
        CPPUNIT_ASSERT_EQUAL(1, two.look());
        const EventToken b = one.bind(2);
        const auto handle = one.subscribe(b, "c").handle;
        wait_at_two(b, handle);
        one.cancel(b, handle);
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
        CPPUNIT_ASSERT_EQUAL(1, two.look());
    }

    void waits_answer_message_close_and_backlog() {  // C-18, C-25, C-27, samples 4 and 5
        const EventToken a = one.bind(1);
        const auto handle = one.subscribe(a, "c").handle;
        const auto slow = one.subscribe(a, "d").handle;
        two.publish("c", "last");
        CPPUNIT_ASSERT_EQUAL(1u, two.close("c", "收摊").closed);
        CPPUNIT_ASSERT_EQUAL(std::string("message:last"), one.poll(a, handle));
        CPPUNIT_ASSERT_EQUAL(std::string("closed:收摊"), one.poll(a, handle));
        overrun("d");
        CPPUNIT_ASSERT_EQUAL(std::string("backlog"), one.poll(a, slow));
        CPPUNIT_ASSERT_EQUAL(0u, two.publish("d", "x").delivered);
    }

    void status_2_is_final() {  // C-21, C-26
        const EventToken a = one.bind(1);
        const auto handle = one.subscribe(a, "c").handle;
        two.close("c", "first");
        const auto fresh = one.subscribe(a, "c").handle;
        two.publish("c", "x");
        two.close("c", "second");
        for (int i = 0; i < 3; ++i) CPPUNIT_ASSERT_EQUAL(std::string("closed:first"), one.poll(a, handle));
        CPPUNIT_ASSERT_EQUAL(std::string("message:x"), one.poll(a, fresh));
        for (int i = 0; i < 3; ++i) CPPUNIT_ASSERT_EQUAL(std::string("closed:second"), one.poll(a, fresh));
    }

    void a_wait_shows_in_the_subscription() {  // C-24
        const EventToken a = one.bind(1);
        const auto handle = one.subscribe(a, "c").handle;
        wait_at_two(a, handle);
        one.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, a), handle)->cursor.station != nullptr);
        });
        two.locked([&](ZoneLock& lock) {
            stop_awaiting(lock, find_subscription(lock, *find_event(lock, a), handle)->cursor);
        });
        one.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(find_subscription(lock, *find_event(lock, a), handle)->cursor.station == nullptr);
        });
    }

    void a_message_is_taken_only_by_taking_it() {  // C-23
        const EventToken a = one.bind(1);
        const auto handle = one.subscribe(a, "c").handle;
        wait_at_two(a, handle);
        two.publish("c", "x");
        two.look();
        CPPUNIT_ASSERT_EQUAL(std::string("message:x"), one.poll(a, handle));
    }

    void the_257th_subscription_is_refused() {  // C-3, C-7, sample 6
        const EventToken a = one.bind(1);
        for (int i = 0; i < 256; ++i) CPPUNIT_ASSERT(one.subscribe(a, "c").outcome == ChannelOutcome::ok);
        const std::size_t before = memory.live_blocks();
        CPPUNIT_ASSERT(one.subscribe(a, "c").outcome == ChannelOutcome::subscription_limit);
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        CPPUNIT_ASSERT_EQUAL(256u, two.publish("c", "x").delivered);
    }

    void an_event_is_found_by_its_whole_token() {
        const EventToken a = one.bind(1);
        EventToken forged = a;
        forged.random[15] = 1;
        EventToken elsewhere = a;
        elsewhere.worker.generation += 1;
        one.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(find_event(lock, a) != nullptr);
            CPPUNIT_ASSERT(find_event(lock, forged) == nullptr);
            CPPUNIT_ASSERT(find_event(lock, elsewhere) == nullptr);
        });
    }

    void a_dead_worker_leaves_no_subscription() {  // C-14, C-10
        const EventToken a = one.bind(1);
        const EventToken b = two.bind(2);
        const auto handle = one.subscribe(a, "c").handle;
        const auto other = two.subscribe(b, "c").handle;
        wait_at_two(a, handle);
        one.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(await_messages(lock, find_subscription(lock, *find_event(lock, b), other)->cursor));
        });
        three.locked([&](ZoneLock& lock) { forget_worker(lock, one.self().slot); });
        check();
        CPPUNIT_ASSERT_EQUAL(1u, three.count("c"));
        CPPUNIT_ASSERT_EQUAL_MESSAGE("its waiter is told", 1, two.look());
        two.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT_MESSAGE("nobody waits for it now",
                                   find_subscription(lock, *find_event(lock, b), other)->cursor.station == nullptr);
        });
        expect_nothing_left();
    }

    void a_section_and_its_event_know_each_other() {
        LineEntryRecord* entry = one.enter(LineKind::section, 1).entry;
        const EventToken a = one.bind(1, "object", entry);
        check();
        one.locked([&](ZoneLock& lock) {
            const EventRecord* event = find_event(lock, a);
            CPPUNIT_ASSERT(!must_wait(*event->object, event));
            CPPUNIT_ASSERT(must_wait(*event->object, nullptr));
        });
        one.leave(entry);
        check();
        one.end(a);
        LineEntryRecord* next = one.enter(LineKind::section, 2).entry;
        const EventToken b = one.bind(2, "object", next);
        one.end(b);
        check();
        one.leave(next);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void binding_survives_each_failed_allocation() {
        EventToken token;
        const std::string handler(5000, 'h');
        fail_each_allocation([&] {
            return one.locked([&](ZoneLock& lock) {
                return bind_event(lock, token, EventKind::fetch, "object", nullptr, {handler, 1000, 7}) != nullptr;
            });
        });
        one.locked([&](ZoneLock& lock) {
            const EventRecord& event = *find_event(lock, token);
            std::string kept;
            event.section_handler.append_to(kept);
            CPPUNIT_ASSERT_EQUAL(handler, kept);
            CPPUNIT_ASSERT_EQUAL(1000u, event.section_timeout_ms);
            CPPUNIT_ASSERT_EQUAL(7u, event.line_queue);
        });
        one.end(token);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void subscribing_survives_each_failed_allocation() {
        const EventToken a = one.bind(1);
        fail_each_allocation([&] { return two.subscribe(a, "c").outcome == ChannelOutcome::ok; });
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c"));
    }

    void tokens_are_written_and_read() {
        EventToken token;
        for (std::uint8_t i = 0; i < 16; ++i) token.random[i] = static_cast<std::uint8_t>(0xf0 + i);
        token.zone = 0x01234567;
        token.worker = {0x89abcdef, 0x00fe};
        char text[kEventTokenSize];
        write_event_token(token, text);
        const std::string hex(text, sizeof text);
        CPPUNIT_ASSERT_EQUAL(std::string("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff0123456700fe89abcdef"), hex);
        CPPUNIT_ASSERT(read_event_token(hex) == token);
        CPPUNIT_ASSERT(!read_event_token(hex.substr(1)));
        CPPUNIT_ASSERT(!read_event_token(hex + "0"));
        CPPUNIT_ASSERT(!read_event_token(""));
        for (const char bad : {'F', 'g', ' ', '-', '\0'}) {
            std::string text_with_bad = hex;
            text_with_bad[51] = bad;
            CPPUNIT_ASSERT(!read_event_token(text_with_bad));
        }
    }

private:
    void overrun(std::string_view channel) {
        for (int i = 0; i < 17; ++i) two.publish(channel, std::string(65536, 'x'));
    }

    void wait_at_two(const EventToken& token, std::uint64_t handle) {
        two.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(await_messages(lock, find_subscription(lock, *find_event(lock, token), handle)->cursor));
        });
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EventTest);

}  // namespace

}  // namespace durable
