// SPDX-License-Identifier: BSD-2-Clause
#include "core/mailbox.h"

#include <string>

#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

class MailboxTest : public ZoneFixture {
    CPPUNIT_TEST_SUITE(MailboxTest);
    CPPUNIT_TEST(a_command_arrives_whole);
    CPPUNIT_TEST(commands_arrive_in_order);
    CPPUNIT_TEST(a_command_wakes_its_receiver_once);
    CPPUNIT_TEST(a_worker_may_write_to_itself);
    CPPUNIT_TEST(a_dead_receiver_is_known);
    CPPUNIT_TEST(a_slots_next_owner_gets_nothing_of_the_last);
    CPPUNIT_TEST(what_a_dead_receiver_left_is_answered);
    CPPUNIT_TEST(an_answer_to_a_dead_worker_is_dropped);
    CPPUNIT_TEST(a_dead_senders_command_is_dropped_with_its_receiver);
    CPPUNIT_TEST(a_long_text_arrives_whole);
    CPPUNIT_TEST(a_draft_for_a_dead_worker_is_discarded);
    CPPUNIT_TEST(a_dead_workers_drafts_are_freed);
    CPPUNIT_TEST(drafting_survives_each_failed_allocation);
    CPPUNIT_TEST(posting_survives_each_failed_allocation);
    CPPUNIT_TEST_SUITE_END();

public:
    void a_command_arrives_whole() {
        Command command;
        command.kind = CommandKind::stream_write;
        command.token = one.bind(1);
        command.call = 42;
        command.handle = 43;
        command.result = -7;
        command.text = std::string(9000, 't');
        CPPUNIT_ASSERT(post(one, two, command) == PostOutcome::ok);
        check();
        Command got;
        CPPUNIT_ASSERT(take(two, got));
        CPPUNIT_ASSERT(got.kind == command.kind);
        CPPUNIT_ASSERT(got.sender == one.self());
        CPPUNIT_ASSERT(got.token == command.token);
        CPPUNIT_ASSERT_EQUAL(command.call, got.call);
        CPPUNIT_ASSERT_EQUAL(command.handle, got.handle);
        CPPUNIT_ASSERT_EQUAL(command.result, got.result);
        CPPUNIT_ASSERT_EQUAL(command.text, got.text);
        CPPUNIT_ASSERT(!take(two, got));
    }

    void commands_arrive_in_order() {
        for (std::uint64_t call = 1; call <= 5; ++call) post(call % 2 == 0 ? one : three, two, named(call));
        CPPUNIT_ASSERT_EQUAL(5u, two.slot().mailbox_depth);
        CPPUNIT_ASSERT_EQUAL(std::string("1 2 3 4 5 "), calls(two));
        CPPUNIT_ASSERT_EQUAL(0u, two.slot().mailbox_depth);
    }

    void a_command_wakes_its_receiver_once() {
        post(one, two, named(1));
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
        post(one, two, named(2));
        CPPUNIT_ASSERT_EQUAL(0, static_cast<int>(one.wakes.count));
        two.look();
        post(one, two, named(3));
        CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
    }

    void a_worker_may_write_to_itself() {
        post(one, one, named(1));
        CPPUNIT_ASSERT(one.wakes.self);
        CPPUNIT_ASSERT_EQUAL(std::string("1 "), calls(one));
    }

    void a_dead_receiver_is_known() {
        const WorkerRef dead = two.self();
        forget(two);
        const auto outcome = one.locked([&](ZoneLock& lock) { return post_command(lock, dead, named(1)); });
        CPPUNIT_ASSERT(outcome == PostOutcome::dead);
        const auto never = one.locked([&](ZoneLock& lock) { return post_command(lock, {1, 200}, named(1)); });
        CPPUNIT_ASSERT(never == PostOutcome::dead);
    }

    void a_slots_next_owner_gets_nothing_of_the_last() {
        const WorkerRef dead = two.self();
        forget(two);
        Worker fresh(memory, root, 105);
        CPPUNIT_ASSERT_EQUAL(dead.slot, fresh.self().slot);
        CPPUNIT_ASSERT(fresh.self().generation != dead.generation);
        const auto outcome = one.locked([&](ZoneLock& lock) { return post_command(lock, dead, named(1)); });
        CPPUNIT_ASSERT(outcome == PostOutcome::dead);
        CPPUNIT_ASSERT_EQUAL(std::string(), calls(fresh));
    }

    void what_a_dead_receiver_left_is_answered() {
        Command command = named(7);
        command.text = std::string(5000, 't');
        post(one, two, command);
        post(three, two, named(8));
        forget(two);
        check();
        Command got;
        CPPUNIT_ASSERT(take(one, got));
        CPPUNIT_ASSERT(got.kind == CommandKind::answer);
        CPPUNIT_ASSERT_EQUAL(kWorkerDied, got.result);
        CPPUNIT_ASSERT_EQUAL(std::uint64_t{7}, got.call);
        CPPUNIT_ASSERT_EQUAL(std::string(), got.text);
        CPPUNIT_ASSERT_EQUAL(std::string("8 "), calls(three));
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void an_answer_to_a_dead_worker_is_dropped() {
        Command answer = named(7);
        answer.kind = CommandKind::answer;
        post(one, two, answer);
        forget(two);
        CPPUNIT_ASSERT_EQUAL(std::string(), calls(one));
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void a_dead_senders_command_is_dropped_with_its_receiver() {
        post(one, two, named(7));
        post(two, two, named(8));
        forget(one);
        forget(two);
        check();
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void a_long_text_arrives_whole() {
        Command command = named(7);
        for (const std::size_t size : {131073u, 200000u, 8388608u}) {
            command.text.assign(size, 't');
            for (std::size_t i = 0; i < size; i += 1000) command.text[i] = static_cast<char>('a' + i / 1000 % 26);
            CPPUNIT_ASSERT(is_long(size));
            CommandRecord* draft = draft_command(one.zone(), command);
            check();
            CPPUNIT_ASSERT(one.locked([&](ZoneLock& lock) { return post_draft(lock, two.self(), *draft); }) ==
                           PostOutcome::ok);
            check();
            CPPUNIT_ASSERT_EQUAL(1, static_cast<int>(one.wakes.count));
            two.look();
            Command got;
            CommandRecord* taken = nullptr;
            CPPUNIT_ASSERT(two.locked([&](ZoneLock& lock) { return take_command(lock, got, &taken); }));
            CPPUNIT_ASSERT_EQUAL(command.call, got.call);
            CPPUNIT_ASSERT(taken == draft);
            check();
            read_draft(two.zone(), *taken, got.text);
            CPPUNIT_ASSERT(got.text == command.text);
            CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
        }
        CPPUNIT_ASSERT(!is_long(100000));
    }

    void a_draft_for_a_dead_worker_is_discarded() {
        const WorkerRef dead = two.self();
        forget(two);
        Command command = named(1);
        command.text = std::string(300000, 't');
        CommandRecord* draft = draft_command(one.zone(), command);
        CPPUNIT_ASSERT(one.locked([&](ZoneLock& lock) { return post_draft(lock, dead, *draft); }) == PostOutcome::dead);
        discard_draft(one.zone(), *draft);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void a_dead_workers_drafts_are_freed() {
        Command command = named(1);
        command.text = std::string(300000, 't');
        CPPUNIT_ASSERT(draft_command(one.zone(), command) != nullptr);
        forget(one);
        check();
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void drafting_survives_each_failed_allocation() {
        Command command = named(1);
        command.text = std::string(300000, 't');
        CommandRecord* draft = nullptr;
        fail_each_allocation([&] { return (draft = draft_command(one.zone(), command)) != nullptr; });
        discard_draft(one.zone(), *draft);
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    void posting_survives_each_failed_allocation() {
        Command command = named(1);
        command.text = std::string(9000, 't');
        fail_each_allocation([&] { return post(one, two, command) == PostOutcome::ok; });
        CPPUNIT_ASSERT_EQUAL(std::string("1 "), calls(two));
    }

private:
    static Command named(std::uint64_t call) {
        Command command;
        command.kind = CommandKind::stream_state;
        command.call = call;
        return command;
    }
    PostOutcome post(Worker& from, Worker& to, const Command& command) {
        return from.locked([&](ZoneLock& lock) { return post_command(lock, to.self(), command); });
    }
    bool take(Worker& worker, Command& out) {
        return worker.locked([&](ZoneLock& lock) { return take_command(lock, out); });
    }
    std::string calls(Worker& worker) {
        std::string out;
        Command command;
        while (take(worker, command)) out += std::to_string(command.call) + ' ';
        return out;
    }
    void forget(Worker& worker) {
        three.locked([&](ZoneLock& lock) { forget_worker(lock, worker.self().slot); });
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(MailboxTest);

}  // namespace

}  // namespace durable
