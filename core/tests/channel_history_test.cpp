// SPDX-License-Identifier: BSD-2-Clause
#include <string>

#include "core/channel.h"
#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

class ChannelHistoryTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(ChannelHistoryTest);
    CPPUNIT_TEST(keeps_the_newest_messages_by_count);
    CPPUNIT_TEST(keeps_no_message_older_than_its_age);
    CPPUNIT_TEST(the_oldest_go_when_somebody_looks);
    CPPUNIT_TEST(numbers_count_over_all_channels_of_the_object);
    CPPUNIT_TEST(the_epoch_is_made_with_the_first_kept_message);
    CPPUNIT_TEST(messages_published_without_history_are_not_kept);
    CPPUNIT_TEST(a_reader_resumes_after_a_number);
    CPPUNIT_TEST(what_a_reader_still_needs_stays_when_history_drops_it);
    CPPUNIT_TEST(keeping_makes_no_subscription);
    CPPUNIT_TEST(history_outlives_its_subscriptions);
    CPPUNIT_TEST(close_ends_the_history_too);
    CPPUNIT_TEST(a_dropped_reader_finds_what_is_kept);
    CPPUNIT_TEST_SUITE_END();

public:
    void keeps_the_newest_messages_by_count() {  // H-1
        for (int i = 1; i <= 10; ++i) keep(std::to_string(i), 3);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("8 9 10 "), kept());
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{8}, oldest());
        keep("11", 5);
        CPPUNIT_ASSERT_EQUAL(std::string("8 9 10 11 "), kept());
        keep("12", 1);
        CPPUNIT_ASSERT_EQUAL(std::string("12 "), kept());
    }

    void keeps_no_message_older_than_its_age() {  // H-1
        keep("old", 10, 1000, kNow);
        keep("new", 10, 1000, kNow + 500);
        CPPUNIT_ASSERT_EQUAL(std::string("old new "), kept());
        keep("newer", 10, 1000, kNow + 1000);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("new newer "), kept());
    }

    void the_oldest_go_when_somebody_looks() {  // H-1, C-8
        for (int i = 0; i < 600; ++i) keep("x", 1000, 1000, kNow);
        keep("y", 1000, 1000, kNow + 1);
        CPPUNIT_ASSERT(!expire(kNow + 999));
        CPPUNIT_ASSERT_EQUAL(601u, channel()->kept);
        CPPUNIT_ASSERT(expire(kNow + 1000));
        CPPUNIT_ASSERT(expire(kNow + 1000));
        CPPUNIT_ASSERT(!expire(kNow + 1000));
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("y "), kept());
        CPPUNIT_ASSERT(!expire(kNow + 1001));
        CPPUNIT_ASSERT_EQUAL_MESSAGE("nothing needs the channel then", base, memory.live_blocks());
    }

    void numbers_count_over_all_channels_of_the_object() {  // H-2
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{1}, one.publish("a", "x", {5, 0, 77}).number);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{2}, two.publish("b", "x", {5, 0, 78}).number);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{3}, one.publish("a", "x", {5, 0, 79}).number);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{1}, one.publish("a", "x", {5, 0, 80}, kNow, "other").number);
    }

    void the_epoch_is_made_with_the_first_kept_message() {  // H-2
        one.open("c");
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{0}, one.publish("c", "x").epoch);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{77}, one.publish("c", "x", {5, 0, 77}).epoch);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{77}, two.publish("c", "x", {5, 0, 78}).epoch);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{77}, two.publish("d", "x", {5, 0, 79}).epoch);
    }

    void messages_published_without_history_are_not_kept() {  // H-1
        one.publish("c", "kept", {5, 0, 77});
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{0}, one.publish("c", "lost").number);
        CursorRecord* cursor = one.open("c");
        one.publish("c", "live");
        CPPUNIT_ASSERT_EQUAL(std::string("live "), one.read(*cursor));
        one.destroy(cursor);
        CPPUNIT_ASSERT_EQUAL(std::string("kept "), kept());
    }

    void a_reader_resumes_after_a_number() {  // H-3, H-5
        for (int i = 1; i <= 5; ++i) keep(std::to_string(i), 4);
        CPPUNIT_ASSERT_EQUAL(std::string("4 5 "), read_from({StartAt::after, 3}));
        CPPUNIT_ASSERT_EQUAL(std::string(), read_from({StartAt::after, 5}));
        CPPUNIT_ASSERT_EQUAL(std::string("2 3 4 5 "), read_from({StartAt::after, 0}));
        CPPUNIT_ASSERT_EQUAL(std::string("2 3 4 5 "), read_from({StartAt::oldest, 0}));
        CPPUNIT_ASSERT_EQUAL(std::string(), read_from({StartAt::newest, 0}));
        CursorRecord* cursor = one.open("c", {StartAt::after, 4});
        keep("6", 4);
        CPPUNIT_ASSERT_EQUAL(std::string("5 6 "), one.read(*cursor));
    }

    void what_a_reader_still_needs_stays_when_history_drops_it() {  // H-3
        for (int i = 1; i <= 3; ++i) keep(std::to_string(i), 3);
        CursorRecord* cursor = one.open("c", {StartAt::oldest, 0});
        for (int i = 4; i <= 6; ++i) keep(std::to_string(i), 3);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("4 5 6 "), kept());
        CPPUNIT_ASSERT_EQUAL(std::string("1 2 3 4 5 6 "), one.read(*cursor));
    }

    void keeping_makes_no_subscription() {  // H-7, C-15, C-29
        CPPUNIT_ASSERT_EQUAL(0u, keep("x", 5).delivered);
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
        one.open("c");
        CPPUNIT_ASSERT_EQUAL(1u, keep("x", 5).delivered);
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c"));
    }

    void history_outlives_its_subscriptions() {
        CursorRecord* cursor = one.open("c");
        keep("1", 5);
        one.destroy(cursor);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("1 "), kept());
    }

    void close_ends_the_history_too() {  // C-25, C-26
        for (int i = 0; i < 3; ++i) keep("x", 5);
        CPPUNIT_ASSERT_EQUAL(0u, two.close("c", "over").closed);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
        for (int i = 0; i < 3; ++i) keep(std::to_string(i), 5);
        CursorRecord* reader = one.open("c", {StartAt::oldest, 0});
        two.close("c", "over");
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("0 1 2 "), one.read(*reader));
        CPPUNIT_ASSERT(is_drained(*reader));
        one.destroy(reader);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void a_dropped_reader_finds_what_is_kept() {  // H-11, C-31
        CursorRecord* slow = one.open("c");
        const std::string text(65536, 'x');
        for (int i = 0; i < 17; ++i) keep(text, 100);
        CPPUNIT_ASSERT(slow->state == CursorState::dropped);
        CPPUNIT_ASSERT_EQUAL(std::size_t{17 * 65537}, read_from({StartAt::after, 0}).size());
    }

private:
    PublishResult keep(std::string_view text, std::uint32_t messages, std::uint64_t max_age_ms = 0,
                       std::uint64_t now_ms = kNow) {
        return two.publish("c", text, {messages, max_age_ms, 77}, now_ms);
    }

    std::string read_from(StartAt start) {
        CursorRecord* cursor = three.open("c", start);
        std::string out = three.read(*cursor);
        three.destroy(cursor);
        check();
        return out;
    }

    // What a new reader of everything gets.
    std::string kept() { return read_from({StartAt::oldest, 0}); }

    ChannelRecord* channel() {
        return one.locked([](ZoneLock& lock) { return find_channel(lock, *find_object(lock, "object"), "c"); });
    }
    std::uint64_t oldest() { return oldest_kept(*channel()); }
    bool expire(std::uint64_t now_ms) {
        ChannelRecord& record = *channel();
        return one.locked([&](ZoneLock& lock) { return expire_messages(lock, record, now_ms); });
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ChannelHistoryTest);

}  // namespace

}  // namespace durable
