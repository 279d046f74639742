// SPDX-License-Identifier: BSD-2-Clause
#include "core/zone.h"

#include <memory>
#include <string>
#include <vector>

#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

class ZoneTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(ZoneTest);
    CPPUNIT_TEST(a_slot_is_claimed_and_reused);
    CPPUNIT_TEST(there_are_256_slots);
    CPPUNIT_TEST(claiming_survives_each_failed_allocation);
    CPPUNIT_TEST(making_a_root_survives_each_failed_allocation);
    CPPUNIT_TEST(a_freed_slot_is_not_alive_nor_woken);
    CPPUNIT_TEST(forgetting_leaves_nothing_behind);
    CPPUNIT_TEST(forgetting_wakes_everybody_with_the_next_lock);
    CPPUNIT_TEST(the_lock_says_who_holds_it);
    CPPUNIT_TEST(an_object_lives_as_long_as_something_of_it);
    CPPUNIT_TEST(making_an_object_survives_each_failed_allocation);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_slot_is_claimed_and_reused() {
        CPPUNIT_ASSERT_EQUAL(0, static_cast<int>(one.self().slot));
        CPPUNIT_ASSERT_EQUAL(2, static_cast<int>(three.self().slot));
        const WorkerRef dead = two.self();
        forget(two);
        Worker fresh(memory, root, 109);
        CPPUNIT_ASSERT_EQUAL(dead.slot, fresh.self().slot);
        CPPUNIT_ASSERT(fresh.self() != dead);
        CPPUNIT_ASSERT_EQUAL(109u, fresh.slot().pid);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{109}, fresh.slot().start_time);
        CPPUNIT_ASSERT(is_alive(root, fresh.self()));
        CPPUNIT_ASSERT(!is_alive(root, dead));
        CPPUNIT_ASSERT(!is_alive(root, {}));
        CPPUNIT_ASSERT(!is_alive(root, {1, 3}));
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void there_are_256_slots() {
        std::vector<std::unique_ptr<Worker>> workers;
        for (std::uint32_t i = 3; i < kMaxWorkers; ++i) {
            workers.push_back(std::make_unique<Worker>(memory, root, 1000 + i));
        }
        Zone late = one.zone();
        late.self = {};
        {
            ZoneLock lock(late);
            CPPUNIT_ASSERT(!claim_worker_slot(lock, 1, "x"));
            CPPUNIT_ASSERT_EQUAL(0u, late.self.generation);
        }
        for (auto& worker : workers) worker->await(*worker->open("c"));
        one.publish("c", "x");
        CPPUNIT_ASSERT_EQUAL(253, static_cast<int>(one.wakes.count));
        forget(*workers.front());
        ZoneLock lock(late);
        CPPUNIT_ASSERT(claim_worker_slot(lock, 1, "x"));
    }

    void claiming_survives_each_failed_allocation() {
        Zone late = one.zone();
        late.pid = 999;
        fail_each_allocation([&] {
            ZoneLock lock(late);
            return claim_worker_slot(lock, 1, "x");
        });
    }

    void making_a_root_survives_each_failed_allocation() {
        HeapMemory fresh;
        int count = 0;
        for (; count < 10; ++count) {
            fresh.fail_after(count);
            SharedLock lock(fresh);
            if (make_zone_root(lock, 1 << 20) != nullptr) break;
        }
        CPPUNIT_ASSERT_EQUAL(6, count);  // the root and its five indexes
    }

    void a_freed_slot_is_not_alive_nor_woken() {
        EventToken b = two.bind(2);
        const auto handle = two.subscribe(b, "c").handle;
        one.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(await_messages(lock, find_subscription(lock, *find_event(lock, b), handle)->cursor));
        });
        forget(one);
        three.locked([](ZoneLock&) {});
        two.publish("c", "x");
        CPPUNIT_ASSERT_EQUAL(0, static_cast<int>(two.wakes.count));
    }

    void forgetting_leaves_nothing_behind() {  // C-14, X-16
        LineEntryRecord* section = one.enter(LineKind::section, 1).entry;
        const EventToken a = one.bind(1, "object", section);
        const auto handle = one.subscribe(a, "c").handle;
        one.await(*one.open("c"));
        one.await(*one.open("d", {}, "other"));
        one.open("c");
        for (int i = 0; i < 700; ++i) two.publish("c", "x");
        one.enter(LineKind::held, 2);
        two.enter(LineKind::held, 3);
        Command command;
        command.text = "text";
        command.kind = CommandKind::stream_write;
        CPPUNIT_ASSERT(one.locked([&](ZoneLock& lock) { return post_command(lock, two.self(), command); }) ==
                       PostOutcome::ok);
        CPPUNIT_ASSERT(two.locked([&](ZoneLock& lock) { return post_command(lock, one.self(), command); }) ==
                       PostOutcome::ok);
        two.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(await_messages(lock, find_subscription(lock, *find_event(lock, a), handle)->cursor));
        });
        check();
        forget(one);
        check();
        CPPUNIT_ASSERT_EQUAL(0u, two.count("c"));
        CPPUNIT_ASSERT_EQUAL(1, two.look());
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{3}, two.granted()->ticket);
        expect_nothing_left();
    }

    void forgetting_wakes_everybody_with_the_next_lock() {
        CPPUNIT_ASSERT_EQUAL(0, wakes_of(three));
        forget(one);
        CPPUNIT_ASSERT_EQUAL(1, wakes_of(three));
        CPPUNIT_ASSERT(three.wakes.self);
        CPPUNIT_ASSERT_EQUAL(0, wakes_of(three));
    }

    void the_lock_says_who_holds_it() {
        one.locked([&](ZoneLock&) { CPPUNIT_ASSERT_EQUAL(101u, root.held_by); });
        CPPUNIT_ASSERT_EQUAL(0u, root.held_by);
    }

    void an_object_lives_as_long_as_something_of_it() {
        const std::string key(512, 'k');
        const EventToken a = one.bind(1, key);
        CursorRecord* cursor = one.open("c", {}, key);
        LineEntryRecord* entry = one.enter(LineKind::section, 1, 1000, key).entry;
        CPPUNIT_ASSERT_EQUAL(3u, object(key)->references);
        CPPUNIT_ASSERT(object(key)->key() == key);
        CPPUNIT_ASSERT(object(key.substr(1)) == nullptr);
        one.end(a);
        one.leave(entry);
        CPPUNIT_ASSERT_EQUAL(1u, object(key)->references);
        one.destroy(cursor);
        CPPUNIT_ASSERT(object(key) == nullptr);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void making_an_object_survives_each_failed_allocation() {
        ObjectRecord* made = nullptr;
        memory.fail_after(0);
        one.locked([&](ZoneLock& lock) { made = refer_to_object(lock, "new"); });
        memory.fail_after(-1);
        CPPUNIT_ASSERT(made == nullptr);
        one.locked([&](ZoneLock& lock) {
            made = refer_to_object(lock, "new");
            CPPUNIT_ASSERT(refer_to_object(lock, "new") == made);
            release_object(lock, *made);
            release_object(lock, *made);
        });
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

private:
    void forget(Worker& worker) {
        two.locked([&](ZoneLock& lock) { forget_worker(lock, worker.self().slot); });
    }
    int wakes_of(Worker& worker) {
        worker.locked([](ZoneLock&) {});
        return worker.wakes.count;
    }
    ObjectRecord* object(std::string_view key) {
        return two.locked([&](ZoneLock& lock) { return find_object(lock, key); });
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ZoneTest);

}  // namespace

}  // namespace durable
