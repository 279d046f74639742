// SPDX-License-Identifier: BSD-2-Clause
// A zone in heap memory with several workers that share it, each with a view of its own.
#pragma once

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <functional>
#include <string>

#include "core/channel.h"
#include "core/event.h"
#include "core/line.h"
#include "core/mailbox.h"
#include "core/object.h"
#include "core/tests/heap_memory.h"
#include "core/tests/zone_checks.h"
#include "core/zone.h"

namespace durable {

inline constexpr std::uint64_t kNow = 1700000000000;

inline ZoneRoot* make_root(SharedMemory& memory, std::uint64_t bytes = 1 << 20) {
    SharedLock lock(memory);
    ZoneRoot* root = make_zone_root(lock, bytes);
    CPPUNIT_ASSERT(root != nullptr);
    return root;
}

// A worker process: takes the lock for each call.
class Worker {
public:
    // Runs `body(lock)` under the lock; what has to be woken is in `wakes` then.
    template <class Body>
    auto locked(Body&& body) {
        wakes = WakeList();
        ZoneLock lock(zone_);
        lock.copy_wakes_to(wakes);
        return body(lock);
    }

    Worker(SharedMemory& memory, ZoneRoot& root, std::uint32_t pid) {
        zone_.memory = &memory;
        zone_.root = &root;
        zone_.pid = pid;
        const char address[] = {'\0', static_cast<char>('a' + pid % 26)};
        const bool is_claimed = locked([&](ZoneLock& lock) {
            return claim_worker_slot(lock, pid, {address, sizeof address});
        });
        CPPUNIT_ASSERT(is_claimed);
    }

    Zone& zone() noexcept { return zone_; }
    const WorkerRef& self() const noexcept { return zone_.self; }
    WorkerSlotRecord& slot() noexcept { return *zone_.root->slots[zone_.self.slot]; }

    // What the worker does when it was woken; the stations that were ready.
    int look() {
        return locked([](ZoneLock& lock) {
            lock.own_slot().is_woken = false;
            int stations = 0;
            while (take_ready_station(lock) != nullptr) ++stations;
            return stations;
        });
    }

    PublishResult publish(std::string_view channel, std::string_view text, const HistoryRule& history = {},
                          std::uint64_t now_ms = kNow, std::string_view object = "object") {
        return locked(
            [&](ZoneLock& lock) { return durable::publish(lock, object, channel, "", text, history, now_ms); });
    }
    CloseResult close(std::string_view channel, std::string_view reason) {
        return locked([&](ZoneLock& lock) { return close_channel(lock, "object", channel, reason); });
    }
    std::uint32_t count(std::string_view channel, std::string_view object = "object") {
        return locked([&](ZoneLock& lock) { return count_subscriptions(lock, object, channel); });
    }

    // An event of this worker, its token made of `name`.
    EventToken bind(std::uint8_t name, std::string_view object = "object", LineEntryRecord* section = nullptr) {
        EventToken token;
        token.random[0] = name;
        token.worker = zone_.self;
        const bool is_bound = locked([&](ZoneLock& lock) {
            return bind_event(lock, token, section == nullptr ? EventKind::fetch : EventKind::durable_block, object,
                              section, {"/handler"}) != nullptr;
        });
        CPPUNIT_ASSERT(is_bound);
        return token;
    }
    void end(const EventToken& token) {
        locked([&](ZoneLock& lock) { end_event(lock, *find_event(lock, token)); });
    }
    SubscribeResult subscribe(const EventToken& token, std::string_view channel) {
        return locked([&](ZoneLock& lock) { return durable::subscribe(lock, *find_event(lock, token), channel); });
    }
    void cancel(const EventToken& token, std::uint64_t handle) {
        locked([&](ZoneLock& lock) {
            cancel_subscription(lock, *find_subscription(lock, *find_event(lock, token), handle));
        });
    }
    TakeOutcome take(const EventToken& token, std::uint64_t handle, std::string& text) {
        return locked([&](ZoneLock& lock) {
            return take_message(lock, *find_subscription(lock, *find_event(lock, token), handle), text);
        });
    }
    // What a wait with timeout 0 gives, in words.
    std::string poll(const EventToken& token, std::uint64_t handle) {
        std::string text;
        switch (take(token, handle, text)) {
            case TakeOutcome::nothing_yet: return "nothing";
            case TakeOutcome::message: return "message:" + text;
            case TakeOutcome::closed: return "closed:" + text;
            case TakeOutcome::backlog: return "backlog";
            case TakeOutcome::cancelled: return "cancelled";
        }
        return "?";
    }

    // A stream's position, as a worker holds it.
    CursorRecord* open(std::string_view channel, StartAt start = {}, std::string_view object = "object") {
        return locked([&](ZoneLock& lock) -> CursorRecord* {
            CursorRecord* cursor = create_cursor(lock);
            if (cursor == nullptr) return nullptr;
            if (open_cursor(lock, *cursor, object, channel, start) == ChannelOutcome::ok) return cursor;
            destroy_cursor(lock, cursor);
            return nullptr;
        });
    }
    void destroy(CursorRecord* cursor) {
        locked([&](ZoneLock& lock) { destroy_cursor(lock, cursor); });
    }
    bool await(CursorRecord& cursor) {
        return locked([&](ZoneLock& lock) { return await_messages(lock, cursor); });
    }
    // Reads on to the end; the texts, each followed by a space.
    std::string read(CursorRecord& cursor) {
        std::string out;
        locked([&](ZoneLock& lock) {
            while (const MessageRecord* message = next_message(cursor)) {
                TextChain{message->text, message->size + message->event_size}.append_to(out, message->event_size);
                out += ' ';
                move_on(lock, cursor);
            }
        });
        return out;
    }

    LineResult enter(LineKind kind, std::uint64_t ticket, std::uint32_t queue = 1000,
                     std::string_view object = "object") {
        return locked([&](ZoneLock& lock) { return enter_line(lock, object, kind, ticket, queue); });
    }
    LineResult enter_for(const LineCaller& caller, std::uint64_t ticket, std::string_view object = "object") {
        return locked(
            [&](ZoneLock& lock) { return enter_line(lock, object, LineKind::section, ticket, 1000, &caller); });
    }
    bool end_wait(LineEntryRecord* entry, std::uint64_t now_ms) {
        return locked([&](ZoneLock& lock) { return end_caller_wait(lock, *entry, now_ms); });
    }
    void leave(LineEntryRecord* entry) {
        locked([&](ZoneLock& lock) { leave_line(lock, entry); });
    }
    // The next granted entry's ticket, 0 when none.
    LineEntryRecord* granted() {
        return locked([](ZoneLock& lock) { return take_granted(lock); });
    }

    WakeList wakes;

private:
    Zone zone_;
};

class ZoneFixture : public CppUnit::TestFixture {
public:
    void setUp() override { base = memory.live_blocks(); }
    // Whatever a test does, the zone is sound after it, and nothing is left but what is reached.
    void tearDown() override {
        check();
        CPPUNIT_ASSERT_EQUAL(count_reachable(root), memory.live_blocks());
    }

protected:
    void check() {
        expect_consistent(root, [this](const void* block) { return memory.owns(block); });
    }

    // Forgets the workers: then nothing may be left in the zone.
    void expect_nothing_left() {
        const WorkerRef refs[] = {one.self(), two.self(), three.self()};
        for (const WorkerRef& ref : refs) one.locked([&](ZoneLock& lock) { forget_worker(lock, ref.slot); });
        one.locked([](ZoneLock& lock) {
            while (free_leftovers(lock)) {}
        });
        check();
        CPPUNIT_ASSERT_EQUAL(base, memory.live_blocks());
    }

    // Fails each allocation of `operation` in turn. It answers whether it succeeded; when it did not,
    // nothing may have changed.
    void fail_each_allocation(const std::function<bool()>& operation) {
        for (int count = 0; count < 100; ++count) {
            const std::size_t before = memory.live_blocks();
            memory.fail_after(count);
            const bool is_done = operation();
            const bool has_failed = memory.has_failed();
            memory.fail_after(-1);
            check();
            CPPUNIT_ASSERT_MESSAGE("fails exactly when an allocation does", is_done != has_failed);
            if (is_done) {
                CPPUNIT_ASSERT_MESSAGE("it allocates nothing", count > 0);
                return;
            }
            CPPUNIT_ASSERT_EQUAL(before, memory.live_blocks());
        }
        CPPUNIT_FAIL("never succeeds");
    }

    HeapMemory memory;
    ZoneRoot& root = *make_root(memory);
    Worker one{memory, root, 101};
    Worker two{memory, root, 102};
    Worker three{memory, root, 103};
    std::size_t base = 0;
};

}  // namespace durable
