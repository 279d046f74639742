// SPDX-License-Identifier: BSD-2-Clause
// Random entering, leaving and dying at one object's line, compared with a plain list.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

constexpr std::uint32_t kQueue = 150;

struct ModelEntry {
    std::uint64_t ticket;
    LineKind kind;
    std::size_t worker;
    LineEntryRecord* record;
    bool is_seen = false;  // its worker took it
};

class LineModel {
public:
    explicit LineModel(std::uint32_t seed) : random_(seed) {
        for (std::uint32_t i = 0; i < 3; ++i) workers_.push_back(std::make_unique<Worker>(memory_, root_, 101 + i));
        base_ = memory_.live_blocks();
    }

    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            // Now more arrive than leave, now fewer.
            const std::uint32_t arriving = i / 250 % 2 == 0 ? 6 : 2;
            const std::uint32_t choice = below(10);
            if (choice < arriving) {
                enter();
            } else if (choice < 9) {
                leave_some();
            } else {
                take(below(3));
                if (below(20) == 0) kill(below(3));
            }
            check();
        }
        drain();
    }

private:
    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

    // What the rules say: the line's head goes as far as it may, 64 held ones at once.
    void advance() {
        for (int step = 0; step < 64 && !is_running_ && !waiting_.empty(); ++step) {
            const ModelEntry entry = waiting_.front();
            waiting_.erase(waiting_.begin());
            is_running_ = entry.kind == LineKind::section;
            granted_.push_back(entry);
        }
    }

    void enter() {
        ModelEntry entry{++tickets_, below(4) == 0 ? LineKind::section : LineKind::held, below(3), nullptr};
        const LineResult result = workers_[entry.worker]->enter(entry.kind, entry.ticket, kQueue);
        entry.record = result.entry;
        const bool is_free = !is_running_ && waiting_.empty();
        if (is_free && entry.kind == LineKind::held) {
            CPPUNIT_ASSERT(result.outcome == LineOutcome::passed);
        } else if (is_free) {
            CPPUNIT_ASSERT(result.outcome == LineOutcome::granted);
            is_running_ = true;
            entry.is_seen = true;
            granted_.push_back(entry);
        } else if (waiting_.size() >= kQueue) {
            CPPUNIT_ASSERT(result.outcome == LineOutcome::full);
        } else {
            CPPUNIT_ASSERT(result.outcome == LineOutcome::waiting);
            waiting_.push_back(entry);
        }
    }

    // The worker's granted ones come in the order granted.
    void take(std::size_t worker) {
        for (ModelEntry& entry : granted_) {
            if (entry.worker != worker || entry.is_seen) continue;
            LineEntryRecord* record = workers_[worker]->granted();
            CPPUNIT_ASSERT(record != nullptr);
            CPPUNIT_ASSERT_EQUAL(entry.ticket, record->ticket);
            entry.is_seen = true;
        }
        CPPUNIT_ASSERT(workers_[worker]->granted() == nullptr);
    }

    void leave(std::vector<ModelEntry>& list, std::size_t index) {
        const ModelEntry entry = list[index];
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
        const bool was_granted = &list == &granted_;
        if (was_granted && entry.kind == LineKind::section) is_running_ = false;
        workers_[entry.worker]->leave(entry.record);
        advance();
    }

    void leave_some() {
        if (!waiting_.empty() && below(6) == 0) {
            leave(waiting_, below(static_cast<std::uint32_t>(waiting_.size())));
        } else if (!granted_.empty()) {
            leave(granted_, below(static_cast<std::uint32_t>(granted_.size())));
        }
    }

    // The order in which a dead worker's entries go is the order in which they came.
    void kill(std::size_t worker) {
        workers_[(worker + 1) % 3]->locked([&](ZoneLock& lock) { forget_worker(lock, workers_[worker]->self().slot); });
        std::vector<std::uint64_t> gone;
        for (const auto* list : {&waiting_, &granted_}) {
            for (const ModelEntry& entry : *list) {
                if (entry.worker == worker) gone.push_back(entry.ticket);
            }
        }
        std::sort(gone.begin(), gone.end());
        for (const std::uint64_t ticket : gone) {
            const auto is_it = [&](const ModelEntry& entry) { return entry.ticket == ticket; };
            waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_it), waiting_.end());
            const auto granted = std::find_if(granted_.begin(), granted_.end(), is_it);
            if (granted != granted_.end()) {
                if (granted->kind == LineKind::section) is_running_ = false;
                granted_.erase(granted);
            }
            advance();
        }
        workers_[worker] = std::make_unique<Worker>(memory_, root_, 101 + static_cast<std::uint32_t>(worker));
    }

    void check() {
        CPPUNIT_ASSERT_EQUAL(std::string(),
                             find_fault(root_, [this](const void* block) { return memory_.owns(block); }));
        const ObjectRecord* object = workers_[0]->locked([](ZoneLock& lock) { return find_object(lock, "object"); });
        CPPUNIT_ASSERT_EQUAL(waiting_.empty() && granted_.empty(), object == nullptr);
        if (object == nullptr) return;
        CPPUNIT_ASSERT_EQUAL(is_running_, object->running != nullptr);
        std::size_t place = 0;
        for (const LineEntryRecord* entry = object->line.front(); entry != nullptr; entry = object->line.next(*entry)) {
            CPPUNIT_ASSERT(place < waiting_.size());
            CPPUNIT_ASSERT_EQUAL(waiting_[place++].ticket, entry->ticket);
        }
        CPPUNIT_ASSERT_EQUAL(waiting_.size(), place);
    }

    void drain() {
        while (!granted_.empty()) leave(granted_, 0);
        CPPUNIT_ASSERT_MESSAGE("the line is stuck", waiting_.empty());
        CPPUNIT_ASSERT_EQUAL(base_, memory_.live_blocks());
    }

    HeapMemory memory_;
    ZoneRoot& root_ = *make_root(memory_, 4096);
    std::vector<std::unique_ptr<Worker>> workers_;
    std::mt19937 random_;
    std::vector<ModelEntry> waiting_;
    std::vector<ModelEntry> granted_;
    std::uint64_t tickets_ = 0;
    std::size_t base_ = 0;
    bool is_running_ = false;
};

class LineModelTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(LineModelTest);
    CPPUNIT_TEST(the_line_behaves_as_a_list);
    CPPUNIT_TEST_SUITE_END();

public:
    void the_line_behaves_as_a_list() {  // X-16b
        for (const std::uint32_t seed : {1u, 2u, 3u, static_cast<std::uint32_t>(getpid())}) {
            try {
                LineModel(seed).run(2000);
            } catch (CppUnit::Exception& failure) {
                failure.setMessage(CppUnit::Message("seed " + std::to_string(seed), failure.message().details()));
                throw;
            }
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(LineModelTest);

}  // namespace

}  // namespace durable
