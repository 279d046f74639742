// SPDX-License-Identifier: BSD-2-Clause
// A worker dies under the lock: at every single store of every operation, by running a forked one
// instruction by instruction; and by SIGKILL at random moments.
#include "core/zone_repair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/tests/arena_memory.h"
#include "core/tests/random_work.h"
#include "core/tests/stepped_process.h"
#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

// A zone with something of everything; `victim` will die, the two others go on.
struct World {
    World() {
        make_channels();
        make_line();
        make_commands();
        victim.look();
        ally.look();
        other.look();
        expect_consistent(root, is_live);
    }

    void make_channels() {
        ally_group = ally.open("c");
        ally.locked([&](ZoneLock& lock) { CPPUNIT_ASSERT(add_subscription(lock, *ally_group) == ChannelOutcome::ok); });
        victim_group = victim.open("c");
        victim.locked([&](ZoneLock& lock) {
            CPPUNIT_ASSERT(add_subscription(lock, *victim_group) == ChannelOutcome::ok);
            victim_single = split_cursor(lock, *victim_group, 1);
        });
        other_behind = other.open("c");
        ally_event = ally.bind(1);
        victim_event = victim.bind(2);
        const auto of_ally = ally.subscribe(ally_event, "c").handle;
        ally_handle = of_ally;
        victim.subscribe(victim_event, "c");
        victim.subscribe(victim_event, "d");
        for (const char* text : {"m1", "m2"}) ally.publish("c", text);
        ally.read(*ally_group);
        for (int i = 0; i < 3; ++i) ally.publish("h", "kept", {3, 1000, 7});
        closed_behind = other.open("old");
        ally.publish("old", "last");
        ally.close("old", "over");
        ally.await(*ally_group);
        victim.await(*victim_group);
        other.locked([&](ZoneLock& lock) {
            auto* subscription = find_subscription(lock, *find_event(lock, ally_event), ally_handle);
            CPPUNIT_ASSERT(await_messages(lock, subscription->cursor));
        });
    }

    void make_line() {
        running = victim.enter(LineKind::section, 1, 100, "line").entry;
        victim_section = victim.bind(3, "line", running);
        waiting.push_back(ally.enter(LineKind::held, 2, 100, "line").entry);
        victim_held = victim.enter(LineKind::held, 3, 100, "line").entry;
        waiting.push_back(other.enter(LineKind::section, 4, 100, "line").entry);
        waiting.push_back(ally.enter(LineKind::held, 5, 100, "line").entry);
        LineEntryRecord* first = ally.enter(LineKind::section, 6, 100, "line 2").entry;
        victim.enter(LineKind::section, 7, 100, "line 2");
        waiting.push_back(other.enter(LineKind::section, 8, 100, "line 2").entry);
        ally.leave(first);
    }

    void make_commands() {
        Command command;
        command.kind = CommandKind::stream_write;
        command.text = "text";
        Worker* workers[] = {&victim, &ally, &other};
        for (Worker* from : workers) {
            for (Worker* to : workers) {
                from->locked([&](ZoneLock& lock) {
                    CPPUNIT_ASSERT(post_command(lock, to->self(), command) == PostOutcome::ok);
                });
            }
        }
    }

    ArenaMemory memory{1 << 20};
    IsLive is_live = [this](const void* block) { return memory.is_live(block); };
    ZoneRoot& root = *make_root(memory, 4096);
    std::size_t base_blocks = memory.live_blocks();
    Worker victim{memory, root, 201};
    Worker ally{memory, root, 202};
    Worker other{memory, root, 203};
    CursorRecord* ally_group = nullptr;
    CursorRecord* victim_group = nullptr;
    CursorRecord* victim_single = nullptr;
    CursorRecord* other_behind = nullptr;
    CursorRecord* closed_behind = nullptr;
    LineEntryRecord* running = nullptr;
    LineEntryRecord* victim_held = nullptr;
    std::vector<LineEntryRecord*> waiting;  // of those who go on
    EventToken ally_event, victim_event, victim_section;
    std::uint64_t ally_handle = 0;
};

class ZoneRepairTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(ZoneRepairTest);
    CPPUNIT_TEST(a_sound_zone_stays_as_it_is);
    CPPUNIT_TEST(a_death_while_publishing);
    CPPUNIT_TEST(a_death_while_publishing_with_history);
    CPPUNIT_TEST(a_death_while_publishing_to_a_new_object);
    CPPUNIT_TEST(a_death_while_dropping_for_backlog);
    CPPUNIT_TEST(a_death_while_expiring);
    CPPUNIT_TEST(a_death_while_subscribing);
    CPPUNIT_TEST(a_death_while_subscribing_to_a_new_channel);
    CPPUNIT_TEST(a_death_while_cancelling);
    CPPUNIT_TEST(a_death_while_taking_a_message);
    CPPUNIT_TEST(a_death_while_closing);
    CPPUNIT_TEST(a_death_while_binding);
    CPPUNIT_TEST(a_death_while_ending_an_event);
    CPPUNIT_TEST(a_death_while_opening_a_cursor);
    CPPUNIT_TEST(a_death_while_destroying_a_cursor);
    CPPUNIT_TEST(a_death_while_splitting);
    CPPUNIT_TEST(a_death_while_joining);
    CPPUNIT_TEST(a_death_while_moving_on);
    CPPUNIT_TEST(a_death_while_looking);
    CPPUNIT_TEST(a_death_while_entering_a_free_line);
    CPPUNIT_TEST(a_death_while_entering_the_line);
    CPPUNIT_TEST(a_death_while_leaving_the_line);
    CPPUNIT_TEST(a_death_while_withdrawing);
    CPPUNIT_TEST(a_death_while_asking_for_a_section);
    CPPUNIT_TEST(a_death_while_withdrawing_an_events_sections);
    CPPUNIT_TEST(a_death_while_taking_what_is_granted);
    CPPUNIT_TEST(a_death_while_posting);
    CPPUNIT_TEST(a_death_while_taking_a_command);
    CPPUNIT_TEST(a_death_while_claiming_a_slot);
    CPPUNIT_TEST(a_death_while_forgetting_another);
    CPPUNIT_TEST(a_death_while_freeing_leftovers);
    CPPUNIT_TEST(a_death_while_repairing);
    CPPUNIT_TEST(a_kill_at_any_moment);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_sound_zone_stays_as_it_is() {
        World world;
        const auto blocks = world.memory.live_blocks();
        world.root.held_by = 999;
        CPPUNIT_ASSERT_EQUAL(7u, world.ally.count("c"));
        expect_consistent(world.root, world.is_live);
        CPPUNIT_ASSERT_EQUAL(blocks, world.memory.live_blocks());
        CPPUNIT_ASSERT_EQUAL(0u, world.root.held_by);
        verify(world);
    }

    void a_death_while_publishing() {
        die_in([](World& w) { w.victim.publish("c", "new"); });
    }
    void a_death_while_publishing_with_history() {
        die_in([](World& w) { w.victim.publish("h", "new", {3, 1000, 7}); });
    }
    void a_death_while_publishing_to_a_new_object() {
        die_in([](World& w) { w.victim.publish("c", "new", {3, 1000, 7}, kNow, "new object"); });
    }
    void a_death_while_dropping_for_backlog() {
        die_in([](World& w) {
            w.victim.zone().limits.backlog = 3;
            w.victim.publish("c", "new");
        });
    }
    void a_death_while_expiring() {
        die_in([](World& w) {
            w.victim.locked([&](ZoneLock& lock) {
                expire_messages(lock, *find_channel(lock, *find_object(lock, "object"), "h"), kNow + 5000);
            });
        });
    }
    void a_death_while_subscribing() {
        die_in([](World& w) { w.victim.subscribe(w.ally_event, "c"); });
    }
    void a_death_while_subscribing_to_a_new_channel() {
        die_in([](World& w) { w.victim.subscribe(w.ally_event, "new channel"); });
    }
    void a_death_while_cancelling() {
        die_in([](World& w) { w.victim.cancel(w.ally_event, w.ally_handle); });
    }
    void a_death_while_taking_a_message() {
        die_in([](World& w) { w.victim.poll(w.ally_event, w.ally_handle); });
    }
    void a_death_while_closing() {
        die_in([](World& w) { w.victim.close("c", "over"); });
    }
    void a_death_while_binding() {
        die_in([](World& w) { w.victim.bind(9, "new object"); });
    }
    void a_death_while_ending_an_event() {
        die_in([](World& w) { w.victim.end(w.victim_event); });
        die_in([](World& w) { w.victim.end(w.victim_section); });
    }
    void a_death_while_opening_a_cursor() {
        die_in([](World& w) { w.victim.await(*w.victim.open("h", {StartAt::oldest, 0})); });
    }
    void a_death_while_destroying_a_cursor() {
        die_in([](World& w) { w.victim.destroy(w.victim_group); });
    }
    void a_death_while_splitting() {
        die_in([](World& w) { w.victim.locked([&](ZoneLock& lock) { (void)split_cursor(lock, *w.ally_group, 1); }); });
    }
    void a_death_while_joining() {
        die_in([](World& w) {
            w.victim.locked([&](ZoneLock& lock) { join_cursor(lock, *w.victim_single, *w.victim_group); });
        });
    }
    void a_death_while_moving_on() {
        die_in([](World& w) { w.victim.read(*w.other_behind); });
    }
    void a_death_while_looking() {
        die_in([](World& w) {
            w.victim.locked([&](ZoneLock& lock) {
                notify_owner(lock, *w.victim_group);
                stop_awaiting(lock, *w.victim_group);
            });
            w.victim.look();
        });
    }
    void a_death_while_entering_a_free_line() {
        die_in([](World& w) { w.victim.enter(LineKind::section, 20, 100, "new object"); });
    }
    void a_death_while_entering_the_line() {
        die_in([](World& w) { w.victim.enter(LineKind::section, 20, 100, "line"); });
    }
    void a_death_while_leaving_the_line() {
        die_in([](World& w) { w.victim.leave(w.running); });
    }
    void a_death_while_withdrawing() {
        die_in([](World& w) { w.victim.leave(w.victim_held); });
    }
    void a_death_while_asking_for_a_section() {
        die_in([](World& w) { w.victim.enter_for({w.victim_event, 1}, 20, "line"); });
    }
    void a_death_while_withdrawing_an_events_sections() {
        die_in([](World& w) {
            w.ally.enter_for({w.victim_event, 1}, 20, "line");
            w.victim.enter_for({w.victim_event, 2}, 21, "line");
            w.victim.end(w.victim_event);
        });
    }
    void a_death_while_taking_what_is_granted() {
        die_in([](World& w) { w.victim.leave(w.victim.granted()); });
    }
    void a_death_while_posting() {
        die_in([](World& w) {
            w.victim.locked([&](ZoneLock& lock) {
                Command command;
                command.text = "text";
                (void)post_command(lock, w.ally.self(), command);
            });
        });
    }
    void a_death_while_taking_a_command() {
        die_in([](World& w) {
            w.victim.locked([&](ZoneLock& lock) {
                Command command;
                (void)take_command(lock, command);
            });
        });
    }
    void a_death_while_claiming_a_slot() {
        die_in([](World& w) { Worker fresh(w.memory, w.root, 210); });
    }
    void a_death_while_forgetting_another() {
        die_in([](World& w) { w.victim.locked([&](ZoneLock& lock) { forget_worker(lock, w.other.self().slot); }); });
    }
    void a_death_while_freeing_leftovers() {
        die_in([](World& w) { w.victim.locked([](ZoneLock& lock) { free_leftovers(lock); }); },
               [](World& w) {
                   CursorRecord* cursor = w.ally.open("big");
                   for (int i = 0; i < 262; ++i) w.ally.publish("big", "");
                   w.ally.destroy(cursor);
                   CPPUNIT_ASSERT(!w.root.untrimmed.empty());
               });
    }
    void a_death_while_repairing() {
        die_in([](World& w) {
            w.root.held_by = 999;
            w.victim.locked([](ZoneLock&) {});
        });
    }

    void a_kill_at_any_moment() {
        World world;
        const auto seed = static_cast<std::uint32_t>(getpid());
        RandomWork work(seed);
        std::size_t lost = 0;
        for (int round = 0; round < 150; ++round) {
            Worker victim(world.memory, world.root, 300 + static_cast<std::uint32_t>(round));
            victim.zone().limits = {3, 8, 12000};
            run_and_kill(victim, seed + static_cast<std::uint32_t>(round), 50 + work.below(1000));
            lost += world.root.held_by != 0 ? 1 : 0;
            world.memory.force_unlock();
            world.ally.locked([&](ZoneLock&) {});
            expect_sound(world, "after the repair", seed);
            for (int i = 0; i < 20; ++i) work.step(i % 2 == 0 ? world.ally : world.other);
            expect_sound(world, "at work after the repair", seed);
            world.ally.locked([&](ZoneLock& lock) { forget_worker(lock, victim.self().slot); });
            expect_sound(world, "with the dead worker forgotten", seed);
        }
        CPPUNIT_ASSERT_MESSAGE("none died under the lock", lost > 0);
        const std::size_t lost_blocks = world.memory.live_blocks() - count_reachable(world.root);
        CPPUNIT_ASSERT_MESSAGE("a death loses a few blocks at most", lost_blocks <= 8 * lost);
    }

private:
    static void run_and_kill(Worker& victim, std::uint32_t seed, std::uint32_t after_us) {
        const pid_t pid = fork();
        CPPUNIT_ASSERT(pid >= 0);
        if (pid == 0) {
            RandomWork work(seed);
            for (int i = 0; i < 1000000; ++i) work.step(victim);
            _exit(0);
        }
        usleep(after_us);
        kill(pid, SIGKILL);
        int status = 0;
        CPPUNIT_ASSERT_EQUAL(pid, waitpid(pid, &status, 0));
        CPPUNIT_ASSERT_MESSAGE("it died by itself", WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }

    static void expect_sound(World& world, const std::string& when, std::uint32_t seed) {
        CPPUNIT_ASSERT_EQUAL_MESSAGE(when + ", seed " + std::to_string(seed), std::string(),
                                     find_fault(world.root, world.is_live));
    }

    // Runs `operation` in a process of its own, one instruction at a time, and after each that changed
    // the zone sees what the others make of it if that was its last.
    template <class Operation>
    static void die_in(Operation&& operation, void (*prepare)(World&) = nullptr) {
        World world;
        if (prepare != nullptr) prepare(world);
        SteppedProcess process([&] {
            world.memory.trap_at_lock();
            operation(world);
        });
        int deaths = 0;
        while (process.run_to_trap()) {
            std::vector<char> before = world.memory.save();
            while (world.memory.is_locked() && process.step()) {
                if (world.root.held_by == 0 || world.memory.equals(before)) continue;
                before = world.memory.save();
                world.memory.force_unlock();
                verify(world);
                world.memory.restore(before);
                ++deaths;
            }
        }
        CPPUNIT_ASSERT_MESSAGE("the operation itself failed", !process.has_failed());
        CPPUNIT_ASSERT_MESSAGE("it changed nothing", deaths > 5);
        expect_consistent(world.root, world.is_live);
    }

    // The next one takes the lock, and everything goes on.
    static void verify(World& world) {
        const bool was_dead = world.root.held_by != 0;
        world.ally.locked([](ZoneLock&) {});
        expect_consistent(world.root, world.is_live);
        if (was_dead) expect_woken(world);
        if (is_alive(world.root, world.other.self())) {
            for (const LineEntryRecord* entry : world.waiting) {
                CPPUNIT_ASSERT_MESSAGE("a place in a line is lost", world.memory.is_live(entry));
            }
        }
        expect_messages(world);
        expect_consistent(world.root, world.is_live);
        RandomWork work(1);
        for (int i = 0; i < 10; ++i) work.step(world.ally);
        world.other.locked([&](ZoneLock& lock) { forget_worker(lock, world.victim.self().slot); });
        expect_consistent(world.root, world.is_live);
        expect_line_ends(world);
        expect_little_lost(world);
    }

    static void expect_woken(World& world) {
        CPPUNIT_ASSERT_MESSAGE("a wake-up is lost", world.ally.wakes.self);
        CPPUNIT_ASSERT_MESSAGE("a wake-up is lost",
                               world.ally.wakes.count >= (is_alive(world.root, world.other.self()) ? 2 : 1));
        CPPUNIT_ASSERT_MESSAGE("a station is not looked at", world.ally.look() >= 1);
    }

    // Nobody's place is lost, and a message reaches all or none.
    static void expect_messages(World& world) {
        const std::string fresh = world.ally.read(*world.ally_group);
        CPPUNIT_ASSERT(fresh.empty() || fresh == "new ");
        if (!is_alive(world.root, world.other.self())) return;
        if (world.other_behind->state == CursorState::reading) {
            CPPUNIT_ASSERT_MESSAGE("a place is lost", world.other_behind->at != nullptr);
            const std::string all = "m1 m2 " + fresh;
            const std::string rest = world.other.read(*world.other_behind);
            CPPUNIT_ASSERT_EQUAL(rest, all.substr(all.size() - rest.size()));
        }
        CPPUNIT_ASSERT_EQUAL(std::string("last "), world.other.read(*world.closed_behind));
        CPPUNIT_ASSERT(is_drained(*world.closed_behind));
        const std::string polled = world.ally.poll(world.ally_event, world.ally_handle);
        CPPUNIT_ASSERT(polled == "message:m1" || polled == "message:m2" || polled == "cancelled" ||
                       polled == "backlog");
    }

    // Whoever stands in a line gets its turn.
    static void expect_line_ends(World& world) {
        Worker* workers[] = {&world.ally, &world.other};
        for (int round = 0; round < 20; ++round) {
            for (Worker* worker : workers) {
                while (LineEntryRecord* entry = worker->granted()) worker->leave(entry);
                // Sections of the random work were told at once.
                for (LineEntryRecord* entry = worker->slot().line_entries.front(); entry != nullptr;) {
                    LineEntryRecord* next = worker->slot().line_entries.next(*entry);
                    if (entry->is_told) worker->leave(entry);
                    entry = next;
                }
            }
        }
        for (Worker* worker : workers) CPPUNIT_ASSERT_MESSAGE("the line is stuck", worker->slot().line_entries.empty());
        expect_consistent(world.root, world.is_live);
    }

    static void expect_little_lost(World& world) {
        world.ally.locked([&](ZoneLock& lock) {
            forget_worker(lock, world.other.self().slot);
            forget_worker(lock, world.ally.self().slot);
            while (free_leftovers(lock)) {}
        });
        expect_consistent(world.root, world.is_live);
        for (std::uint16_t slot = 0; slot < world.root.slot_count; ++slot) {
            if (world.root.slots[slot]->pid != 0) {
                world.ally.locked([&](ZoneLock& lock) { forget_worker(lock, slot); });
            }
        }
        const std::size_t lost = world.memory.live_blocks() - count_reachable(world.root);
        CPPUNIT_ASSERT_MESSAGE("lost " + std::to_string(lost) + " blocks", lost <= 6);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ZoneRepairTest);

}  // namespace

}  // namespace durable
