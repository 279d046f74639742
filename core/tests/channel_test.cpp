// SPDX-License-Identifier: BSD-2-Clause
#include "core/channel.h"

#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

constexpr std::uint32_t kMiB = 1048576;

class ChannelTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(ChannelTest);
    CPPUNIT_TEST(names_have_up_to_64_bytes_and_case_counts);
    CPPUNIT_TEST(the_65th_channel_of_an_object_is_refused);
    CPPUNIT_TEST(the_257th_subscription_of_a_channel_is_refused);
    CPPUNIT_TEST(limits_come_from_the_configuration);
    CPPUNIT_TEST(texts_of_any_length_arrive_byte_for_byte);
    CPPUNIT_TEST(a_refusal_changes_nothing);
    CPPUNIT_TEST(a_channel_lives_from_first_to_last_subscription);
    CPPUNIT_TEST(the_same_name_in_two_objects_is_two_channels);
    CPPUNIT_TEST(objects_with_the_same_hash_are_not_mixed_up);
    CPPUNIT_TEST(only_what_came_after_subscribing_is_queued);
    CPPUNIT_TEST(publish_counts_live_subscriptions);
    CPPUNIT_TEST(all_subscriptions_see_the_same_order);
    CPPUNIT_TEST(a_publish_wakes_each_worker_once);
    CPPUNIT_TEST(a_station_is_for_all_of_a_workers_cursors);
    CPPUNIT_TEST(a_cursor_that_stops_awaiting_is_not_woken_for);
    CPPUNIT_TEST(close_delivers_what_was_queued_first);
    CPPUNIT_TEST(close_without_a_channel_answers_0);
    CPPUNIT_TEST(after_close_the_name_begins_a_new_generation);
    CPPUNIT_TEST(unread_texts_of_exactly_1_mib_are_allowed);
    CPPUNIT_TEST(one_byte_more_disconnects_and_drops_the_queue);
    CPPUNIT_TEST(backlog_of_one_does_not_touch_the_others);
    CPPUNIT_TEST(backlog_counts_texts_only);
    CPPUNIT_TEST(counting_creates_nothing);
    CPPUNIT_TEST(split_and_join_keep_weight_and_place);
    CPPUNIT_TEST(a_group_grows_and_shrinks);
    CPPUNIT_TEST(freeing_goes_on_in_bounded_steps);
    CPPUNIT_TEST(publish_survives_each_failed_allocation);
    CPPUNIT_TEST(publish_with_history_survives_each_failed_allocation);
    CPPUNIT_TEST(close_survives_each_failed_allocation);
    CPPUNIT_TEST(opening_survives_each_failed_allocation);
    CPPUNIT_TEST(awaiting_survives_each_failed_allocation);
    CPPUNIT_TEST(split_survives_each_failed_allocation);
    CPPUNIT_TEST_SUITE_END();

public:
    void names_have_up_to_64_bytes_and_case_counts() {  // C-1
        const std::string longest(64, 'x');
        const std::string other = std::string(63, 'x') + 'X';
        CursorRecord* cursor = one.open(longest);
        CPPUNIT_ASSERT_EQUAL(1u, one.publish(longest, "a").delivered);
        CPPUNIT_ASSERT_EQUAL(0u, one.publish(other, "a").delivered);
        CPPUNIT_ASSERT_EQUAL(0u, one.publish(longest.substr(1), "a").delivered);
        one.destroy(cursor);
    }

    void the_65th_channel_of_an_object_is_refused() {  // C-2
        std::vector<CursorRecord*> cursors;
        for (int i = 0; i < 64; ++i) cursors.push_back(one.open("c" + std::to_string(i)));
        CPPUNIT_ASSERT(cursors.back() != nullptr);
        const std::size_t before = memory.live_blocks();
        CPPUNIT_ASSERT(open_outcome("c64") == ChannelOutcome::channel_limit);
        CPPUNIT_ASSERT(one.publish("c64", "a", {5, 0, 1}).outcome == ChannelOutcome::channel_limit);
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        CPPUNIT_ASSERT(open_outcome("c0") == ChannelOutcome::ok);
        CPPUNIT_ASSERT(open_outcome("c64", "other object") == ChannelOutcome::ok);
        one.destroy(cursors.back());
        CPPUNIT_ASSERT(open_outcome("c64") == ChannelOutcome::ok);
    }

    void the_257th_subscription_of_a_channel_is_refused() {  // C-3
        CursorRecord* group = one.open("c");
        for (int i = 1; i < 255; ++i) CPPUNIT_ASSERT(add(*group) == ChannelOutcome::ok);
        CursorRecord* single = two.open("c");
        CPPUNIT_ASSERT_EQUAL(256u, one.count("c"));
        CPPUNIT_ASSERT(open_outcome("c") == ChannelOutcome::subscription_limit);
        CPPUNIT_ASSERT(add(*group) == ChannelOutcome::subscription_limit);
        CPPUNIT_ASSERT_EQUAL(256u, one.count("c"));
        two.destroy(single);
        CPPUNIT_ASSERT(add(*group) == ChannelOutcome::ok);
        CPPUNIT_ASSERT_EQUAL(256u, one.publish("c", "a").delivered);
    }

    void limits_come_from_the_configuration() {  // C-2, C-3, C-27
        one.zone().limits = {65, 257, 2 * kMiB};
        for (int i = 0; i < 65; ++i) CPPUNIT_ASSERT(one.open("c" + std::to_string(i)) != nullptr);
        CPPUNIT_ASSERT(open_outcome("c65") == ChannelOutcome::channel_limit);
        CursorRecord* cursor = one.open("c0");
        for (int i = 2; i < 257; ++i) CPPUNIT_ASSERT(add(*cursor) == ChannelOutcome::ok);
        CPPUNIT_ASSERT(add(*cursor) == ChannelOutcome::subscription_limit);
        for (int i = 0; i < 32; ++i) CPPUNIT_ASSERT_EQUAL(257u, one.publish("c0", std::string(65536, 'x')).delivered);
        CPPUNIT_ASSERT_EQUAL(0u, one.publish("c0", "x").delivered);
    }

    void texts_of_any_length_arrive_byte_for_byte() {  // C-4, C-27a
        CursorRecord* cursor = one.open("c");
        const std::uint32_t block = TextChain::kBlockBytes;
        for (const std::uint32_t size : {0u, 1u, block - 1, block, block + 1, 2 * block, 65536u}) {
            std::string text;
            for (std::uint32_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 % 256);
            CPPUNIT_ASSERT_EQUAL(1u, two.publish("c", text).delivered);
            CPPUNIT_ASSERT_EQUAL(text + ' ', one.read(*cursor));
        }
    }

    void a_refusal_changes_nothing() {  // C-7
        CursorRecord* cursor = one.open("c");
        one.zone().limits.channels = 1;
        const std::size_t before = memory.live_blocks();
        CPPUNIT_ASSERT(open_outcome("d") == ChannelOutcome::channel_limit);
        memory.fail_after(0);
        CPPUNIT_ASSERT(one.publish("c", "a").outcome == ChannelOutcome::no_memory);
        memory.fail_after(-1);
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c"));
        CPPUNIT_ASSERT_EQUAL(std::string(), one.read(*cursor));
    }

    void a_channel_lives_from_first_to_last_subscription() {  // C-8
        CPPUNIT_ASSERT_EQUAL(0u, one.publish("c", "a").delivered);
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
        CPPUNIT_ASSERT_EQUAL(0u, one.close("c", "reason").closed);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
        CursorRecord* first = one.open("c");
        CursorRecord* second = two.open("c");
        CPPUNIT_ASSERT_EQUAL(2u, three.publish("c", "a").delivered);
        one.destroy(first);
        CPPUNIT_ASSERT_EQUAL(1u, three.publish("c", "a").delivered);
        two.destroy(second);
        CPPUNIT_ASSERT_EQUAL(0u, three.publish("c", "a").delivered);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void the_same_name_in_two_objects_is_two_channels() {  // C-9
        CursorRecord* cursor = one.open("c", {}, "a");
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c", "b"));
        CPPUNIT_ASSERT_EQUAL(0u, one.publish("c", "x", {}, kNow, "b").delivered);
        CPPUNIT_ASSERT_EQUAL(1u, one.publish("c", "y", {}, kNow, "a").delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("y "), one.read(*cursor));
    }

    void objects_with_the_same_hash_are_not_mixed_up() {  // C-9
        const auto [first, second] = colliding_keys();
        CursorRecord* elsewhere = one.open("c", {}, first);
        CPPUNIT_ASSERT_EQUAL(0u, two.publish("c", "x", {}, kNow, second).delivered);
        CursorRecord* third = one.open("c", {}, second);
        CPPUNIT_ASSERT_EQUAL(1u, two.publish("c", "y", {}, kNow, second).delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("y "), one.read(*third));
        CPPUNIT_ASSERT_EQUAL(std::string(), one.read(*elsewhere));
    }

    void only_what_came_after_subscribing_is_queued() {  // C-11
        CursorRecord* early = one.open("c");
        two.publish("c", "1");
        CursorRecord* late = three.open("c");
        two.publish("c", "2");
        CPPUNIT_ASSERT_EQUAL(std::string("1 2 "), one.read(*early));
        CPPUNIT_ASSERT_EQUAL(std::string("2 "), three.read(*late));
        CPPUNIT_ASSERT_EQUAL(std::string(), one.read(*early));
    }

    void publish_counts_live_subscriptions() {  // C-15
        one.open("c");
        CursorRecord* group = two.open("c");
        add(*group);
        CPPUNIT_ASSERT_EQUAL(3u, one.publish("c", "a").delivered);
        two.destroy(group);
        CPPUNIT_ASSERT_EQUAL(1u, one.publish("c", "a").delivered);
    }

    void all_subscriptions_see_the_same_order() {  // C-16, C-17
        CursorRecord* quick = one.open("c");
        CursorRecord* slow = two.open("c");
        std::string all;
        for (int i = 0; i < 100; ++i) {
            const std::string text = std::to_string(i);
            (i % 2 == 0 ? two : three).publish("c", text);
            CPPUNIT_ASSERT_EQUAL(text + ' ', one.read(*quick));
            all += text + ' ';
        }
        CPPUNIT_ASSERT_EQUAL(all, two.read(*slow));
    }

    void a_publish_wakes_each_worker_once() {
        one.await(*one.open("c"));
        two.await(*two.open("c"));
        two.await(*two.open("c"));
        three.publish("c", "a");
        CPPUNIT_ASSERT_EQUAL(2, static_cast<int>(three.wakes.count));
        CPPUNIT_ASSERT(!three.wakes.self);
        CPPUNIT_ASSERT_EQUAL(std::string(one.slot().address, 2),
                             std::string(three.wakes.targets[0].address, three.wakes.targets[0].size));
        three.publish("c", "b");
        CPPUNIT_ASSERT_EQUAL_MESSAGE("a wake-up is under way", 0, static_cast<int>(three.wakes.count));
        CPPUNIT_ASSERT_EQUAL(1, one.look());
        one.publish("c", "c");
        CPPUNIT_ASSERT(one.wakes.self);
        CPPUNIT_ASSERT_EQUAL(0, static_cast<int>(one.wakes.count));
        CPPUNIT_ASSERT_EQUAL(1, one.look());
        CPPUNIT_ASSERT_EQUAL(0, one.look());
        CPPUNIT_ASSERT_EQUAL(1, two.look());
        three.publish("c", "d");
        CPPUNIT_ASSERT_EQUAL(2, static_cast<int>(three.wakes.count));
    }

    void a_station_is_for_all_of_a_workers_cursors() {
        CursorRecord* first = one.open("c");
        CursorRecord* second = one.open("c");
        CursorRecord* elsewhere = one.open("d");
        one.await(*first);
        one.await(*second);
        one.await(*elsewhere);
        CPPUNIT_ASSERT(first->station == second->station);
        CPPUNIT_ASSERT(first->station != elsewhere->station);
        StationRecord* station = first->station;
        two.publish("c", "a");
        CPPUNIT_ASSERT(one.locked([](ZoneLock& lock) { return take_ready_station(lock); }) == station);
        CPPUNIT_ASSERT(one.locked([](ZoneLock& lock) { return take_ready_station(lock); }) == nullptr);
    }

    void a_cursor_that_stops_awaiting_is_not_woken_for() {
        CursorRecord* cursor = one.open("c");
        const std::size_t before = memory.live_blocks();
        one.await(*cursor);
        CPPUNIT_ASSERT_EQUAL(before + 1, memory.live_blocks());
        one.locked([&](ZoneLock& lock) { stop_awaiting(lock, *cursor); });
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        two.publish("c", "a");
        CPPUNIT_ASSERT_EQUAL(0, static_cast<int>(two.wakes.count));
        // One that is ready already stays until it was looked at.
        one.await(*cursor);
        two.publish("c", "a");
        one.destroy(cursor);
        check();
        CPPUNIT_ASSERT_EQUAL(1, one.look());
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void close_delivers_what_was_queued_first() {  // C-25
        CursorRecord* behind = one.open("c");
        CursorRecord* caught_up = two.open("c");
        add(*caught_up);
        one.await(*behind);
        three.publish("c", "1");
        two.read(*caught_up);
        one.look();
        CPPUNIT_ASSERT_EQUAL(3u, three.close("c", "over").closed);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("whoever waits is woken", 1, static_cast<int>(three.wakes.count));
        CPPUNIT_ASSERT(!is_drained(*behind));
        CPPUNIT_ASSERT(is_drained(*caught_up));
        CPPUNIT_ASSERT_EQUAL(std::string("1 "), one.read(*behind));
        CPPUNIT_ASSERT(is_drained(*behind));
        std::string reason;
        behind->channel->close_reason.append_to(reason);
        CPPUNIT_ASSERT_EQUAL(std::string("over"), reason);
        CPPUNIT_ASSERT_EQUAL(0u, three.close("c", "again").closed);
        expect_nothing_left();
    }

    void close_without_a_channel_answers_0() {  // C-8, C-5
        CPPUNIT_ASSERT_EQUAL(0u, one.close("c", std::string(1024, 'r')).closed);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void after_close_the_name_begins_a_new_generation() {  // C-26
        CursorRecord* old = one.open("c");
        two.publish("c", "old");
        two.close("c", "over");
        CPPUNIT_ASSERT_EQUAL(0u, two.count("c"));
        CursorRecord* fresh = two.open("c");
        CPPUNIT_ASSERT(fresh->channel != old->channel);
        CPPUNIT_ASSERT_EQUAL(1u, two.publish("c", "new").delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("old "), one.read(*old));
        CPPUNIT_ASSERT_EQUAL(std::string("new "), two.read(*fresh));
        CPPUNIT_ASSERT(is_drained(*old));
        CPPUNIT_ASSERT(!is_drained(*fresh));
        one.destroy(old);
        CPPUNIT_ASSERT_EQUAL(1u, two.count("c"));
    }

    void unread_texts_of_exactly_1_mib_are_allowed() {  // C-27
        CursorRecord* cursor = one.open("c");
        fill(*cursor);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("an empty text adds nothing", 1u, two.publish("c", "").delivered);
        CPPUNIT_ASSERT_EQUAL(static_cast<std::size_t>(kMiB + 17), one.read(*cursor).size());
        fill(*cursor);
        one.locked([&](ZoneLock& lock) { move_on(lock, *cursor); });
        CPPUNIT_ASSERT_EQUAL_MESSAGE("what was read counts no more", 1u, two.publish("c", "x").delivered);
    }

    void one_byte_more_disconnects_and_drops_the_queue() {  // C-27, C-15
        CursorRecord* cursor = one.open("c");
        const std::size_t before = memory.live_blocks();
        one.await(*cursor);
        fill(*cursor);
        one.look();
        CPPUNIT_ASSERT_EQUAL(0u, two.publish("c", "x").delivered);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("it is told", 1, static_cast<int>(two.wakes.count));
        CPPUNIT_ASSERT(cursor->state == CursorState::dropped);
        CPPUNIT_ASSERT(next_message(*cursor) == nullptr);
        CPPUNIT_ASSERT_EQUAL(0u, two.count("c"));
        check();
        CPPUNIT_ASSERT_EQUAL_MESSAGE("texts are gone, the station is left", before + 1, memory.live_blocks());
        one.destroy(cursor);
        one.look();
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void backlog_of_one_does_not_touch_the_others() {  // C-28
        CursorRecord* slow = one.open("c");
        two.publish("c", "x");
        CursorRecord* quick = two.open("c");
        fill(*quick);
        CPPUNIT_ASSERT(slow->state == CursorState::dropped);
        CPPUNIT_ASSERT(quick->state == CursorState::reading);
        CPPUNIT_ASSERT_EQUAL(1u, two.count("c"));
        CPPUNIT_ASSERT_EQUAL(static_cast<std::size_t>(kMiB + 16), two.read(*quick).size());
    }

    void backlog_counts_texts_only() {  // C-27
        CursorRecord* cursor = one.open("c");
        const std::string event(256, 'e');
        for (int i = 0; i < 16; ++i) {
            const auto result = two.locked(
                [&](ZoneLock& lock) { return publish(lock, "object", "c", event, std::string(65536, 't'), {}, kNow); });
            CPPUNIT_ASSERT_EQUAL(1u, result.delivered);
        }
        CPPUNIT_ASSERT_EQUAL(256, static_cast<int>(next_message(*cursor)->event_size));
        CPPUNIT_ASSERT_EQUAL(65536u, next_message(*cursor)->size);
    }

    void counting_creates_nothing() {  // C-29
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
        one.open("c");
        const std::size_t before = memory.live_blocks();
        CPPUNIT_ASSERT_EQUAL(1u, two.count("c"));
        CPPUNIT_ASSERT_EQUAL(0u, two.count("d"));
        CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
    }

    void split_and_join_keep_weight_and_place() {
        CursorRecord* group = one.open("c");
        for (int i = 0; i < 4; ++i) add(*group);
        two.publish("c", "1");
        CursorRecord* slow = one.locked([&](ZoneLock& lock) { return split_cursor(lock, *group, 2); });
        CPPUNIT_ASSERT_EQUAL(3u, group->weight);
        CPPUNIT_ASSERT_EQUAL(2u, slow->weight);
        check();
        CPPUNIT_ASSERT_EQUAL(std::string("1 "), one.read(*group));
        CPPUNIT_ASSERT_EQUAL(5u, two.publish("c", "2").delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("2 "), one.read(*group));
        CPPUNIT_ASSERT_EQUAL(std::string("1 2 "), one.read(*slow));
        one.locked([&](ZoneLock& lock) { join_cursor(lock, *group, *slow); });
        check();
        CPPUNIT_ASSERT_EQUAL(5u, group->weight);
        CPPUNIT_ASSERT_EQUAL(5u, one.count("c"));
    }

    void a_group_grows_and_shrinks() {
        CursorRecord* group = one.open("c");
        add(*group);
        one.locked([&](ZoneLock& lock) { remove_subscription(lock, *group); });
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c"));
        check();
        two.close("c", "over");
        CPPUNIT_ASSERT(add(*group) == ChannelOutcome::ok);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("over at once", 0u, group->channel->live);
        one.locked([&](ZoneLock& lock) { remove_subscription(lock, *group); });
        check();
        one.destroy(group);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void freeing_goes_on_in_bounded_steps() {
        CursorRecord* cursor = one.open("c");
        for (int i = 0; i < 1000; ++i) two.publish("c", "x");
        const std::size_t before = memory.live_blocks();
        one.destroy(cursor);
        check();
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
        CPPUNIT_ASSERT_MESSAGE("not all at once", memory.live_blocks() > before - 2 * 256 - 2);
        CursorRecord* fresh = one.open("c");
        int calls = 0;
        while (two.locked([](ZoneLock& lock) { return free_leftovers(lock); })) {
            check();
            ++calls;
        }
        CPPUNIT_ASSERT(calls >= 2);
        CPPUNIT_ASSERT_EQUAL_MESSAGE("the new generation is untouched", 1u, one.publish("c", "y").delivered);
        CPPUNIT_ASSERT_EQUAL(std::string("y "), one.read(*fresh));
        one.destroy(fresh);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void publish_survives_each_failed_allocation() {
        CursorRecord* cursor = one.open("c");
        const std::string text(10000, 't');
        fail_each_allocation([&] { return two.publish("c", text).outcome == ChannelOutcome::ok; });
        CPPUNIT_ASSERT_EQUAL(text + ' ', one.read(*cursor));
    }

    void publish_with_history_survives_each_failed_allocation() {
        fail_each_allocation([&] {
            return two.publish("c", std::string(5000, 't'), {3, 0, 9}).outcome == ChannelOutcome::ok;
        });
        CPPUNIT_ASSERT_EQUAL_MESSAGE("it created object and channel", 0u, one.count("c"));
    }

    void close_survives_each_failed_allocation() {
        one.open("c");
        fail_each_allocation([&] { return two.close("c", std::string(1024, 'r')).outcome == ChannelOutcome::ok; });
        CPPUNIT_ASSERT_EQUAL(0u, one.count("c"));
    }

    void opening_survives_each_failed_allocation() {
        fail_each_allocation([&] { return one.open("c") != nullptr; });
        CPPUNIT_ASSERT_EQUAL(1u, one.count("c"));
    }

    void awaiting_survives_each_failed_allocation() {
        CursorRecord* cursor = one.open("c");
        fail_each_allocation([&] { return one.await(*cursor); });
        two.publish("c", "a");
        CPPUNIT_ASSERT_EQUAL(1, one.look());
    }

    void split_survives_each_failed_allocation() {
        CursorRecord* group = one.open("c");
        add(*group);
        fail_each_allocation(
            [&] { return one.locked([&](ZoneLock& lock) { return split_cursor(lock, *group, 1) != nullptr; }); });
        CPPUNIT_ASSERT_EQUAL(2u, one.count("c"));
    }

private:
    // Two object keys with one hash. Then two channels of one name have one hash too.
    static std::pair<std::string, std::string> colliding_keys() {
        std::unordered_map<std::uint32_t, std::string> seen;
        std::mt19937_64 random(1);
        for (int i = 0; i < 500000; ++i) {
            const std::string name = std::to_string(random());
            const auto [other, is_new] = seen.emplace(hash_bytes(name), name);
            if (!is_new) return {other->second, name};
        }
        CPPUNIT_FAIL("no two keys have one hash");
        return {};
    }

    ChannelOutcome add(CursorRecord& cursor) {
        return one.locked([&](ZoneLock& lock) { return add_subscription(lock, cursor); });
    }

    ChannelOutcome open_outcome(std::string_view channel, std::string_view object = "object") {
        return one.locked([&](ZoneLock& lock) {
            CursorRecord* cursor = create_cursor(lock);
            const ChannelOutcome outcome = open_cursor(lock, *cursor, object, channel);
            destroy_cursor(lock, cursor);
            return outcome;
        });
    }

    // Publishes 1 MiB to a channel whose only caught-up cursor is this one.
    void fill(CursorRecord& cursor) {
        CPPUNIT_ASSERT(has_caught_up(cursor));
        for (int i = 0; i < 16; ++i) two.publish("c", std::string(65536, 'x'));
        CPPUNIT_ASSERT(cursor.state == CursorState::reading);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ChannelTest);

}  // namespace

}  // namespace durable
