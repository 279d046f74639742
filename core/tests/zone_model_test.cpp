// SPDX-License-Identifier: BSD-2-Clause
// Random work on channels by several workers, compared after each step with a plain model: for each
// subscription the list of texts that it has not read.
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/tests/random_work.h"
#include "core/tests/zone_fixture.h"

namespace durable {

namespace {

constexpr std::uint64_t kBacklog = 3000;
constexpr std::uint32_t kMaxSubscriptions = 12;
constexpr std::uint32_t kMaxChannels = 3;

// One generation of a channel.
struct ModelChannel {
    struct Kept {
        std::uint64_t number;
        std::string text;
        std::uint64_t published_ms;
    };
    std::deque<Kept> history;
    std::uint32_t live = 0;
    bool is_closed = false;
    std::string reason;
};

struct ModelObject {
    std::map<std::string, std::shared_ptr<ModelChannel>> channels;
    std::uint64_t last_number = 0;
    std::uint64_t epoch = 0;
};

// A cursor, or a subscription of an event: `weight` subscriptions with the same unread texts.
struct ModelReader {
    std::shared_ptr<ModelChannel> channel;
    std::string object;
    std::deque<std::string> unread;
    std::size_t unread_bytes = 0;
    std::uint32_t weight = 1;
    CursorState state = CursorState::reading;
    std::size_t worker = 0;
    CursorRecord* cursor = nullptr;  // or
    EventToken event;
    std::uint64_t handle = 0;

    bool is_live() const { return state == CursorState::reading && !channel->is_closed; }
};

class Model {
public:
    explicit Model(std::uint32_t seed) : random_(seed) {
        for (std::uint32_t i = 0; i < 3; ++i) {
            workers_.push_back(std::make_unique<Worker>(memory_, root_, 101 + i));
            workers_.back()->zone().limits = {kMaxChannels, kMaxSubscriptions, kBacklog};
        }
        base_ = memory_.live_blocks();
    }

    void run(int steps) {
        for (int i = 0; i < steps; ++i) {
            step();
            if (i % 8 == 0) check();
        }
        while (!readers_.empty()) end_reader(readers_.size() - 1);
        finish();
    }

private:
    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
    Worker& any_worker() { return *workers_[below(3)]; }

    void step() {
        switch (below(12)) {
            case 0:
            case 1:
            case 2:
            case 3: publish_one(); break;
            case 4: open_one(); break;
            case 5:
            case 6:
            case 7: with_reader([&](std::size_t i) { read_some(readers_[i]); }); break;
            case 8: with_reader([&](std::size_t i) { change_weight(i); }); break;
            case 9:
                with_reader([&](std::size_t i) {
                    if (below(3) == 0) end_reader(i);
                });
                break;
            case 10: with_reader([&](std::size_t i) { join_with_any(i); }); break;
            default:
                if (below(5) == 0)
                    close_one();
                else
                    look();
                break;
        }
    }

    template <class Body>
    void with_reader(Body&& body) {
        if (!readers_.empty()) body(below(static_cast<std::uint32_t>(readers_.size())));
    }

    std::shared_ptr<ModelChannel> find(const std::string& object, const std::string& name) {
        auto& channels = objects_[object].channels;
        const auto found = channels.find(name);
        return found == channels.end() ? nullptr : found->second;
    }

    // Channels and objects that nothing needs are gone, and the object's numbers with them.
    void forget_unneeded() {
        for (auto object = objects_.begin(); object != objects_.end();) {
            auto& channels = object->second.channels;
            for (auto it = channels.begin(); it != channels.end();) {
                const ModelChannel& channel = *it->second;
                const bool is_over = channel.is_closed || (channel.live == 0 && channel.history.empty());
                it = is_over ? channels.erase(it) : std::next(it);
            }
            const bool is_read = std::any_of(readers_.begin(), readers_.end(), [&](const ModelReader& reader) {
                return reader.object == object->first && reader.state != CursorState::cancelled;
            });
            const bool has_events = events_.count(object->first) != 0;
            object = channels.empty() && !is_read && !has_events ? objects_.erase(object) : std::next(object);
        }
    }

    void drop_old(ModelChannel& channel, std::uint64_t max_age_ms) {
        while (max_age_ms != 0 && !channel.history.empty() &&
               now_ >= channel.history.front().published_ms + max_age_ms) {
            channel.history.pop_front();
        }
    }

    void publish_one() {
        const std::string object = "o" + std::to_string(below(2));
        const std::string name = "c" + std::to_string(below(5));
        const std::string text = std::to_string(++texts_) + std::string(below(6) == 0 ? below(1500) : below(20), 'x');
        HistoryRule rule;
        if (below(3) == 0) rule = {1 + below(5), below(2) * 200, 1 + below(1000000)};
        now_ += below(20);
        const auto result = any_worker().publish(name, text, rule, now_, object);

        auto channel = find(object, name);
        if (channel == nullptr && rule.messages != 0) {
            if (is_full(object)) {
                CPPUNIT_ASSERT(result.outcome == ChannelOutcome::channel_limit);
                forget_unneeded();
                return;
            }
            channel = objects_[object].channels[name] = std::make_shared<ModelChannel>();
        }
        CPPUNIT_ASSERT(result.outcome == ChannelOutcome::ok);
        if (channel != nullptr) append(objects_[object], *channel, text, rule, result);
        CPPUNIT_ASSERT_EQUAL(channel == nullptr ? 0u : channel->live, result.delivered);
        forget_unneeded();
    }

    // Whether the object can have no further channel. One that exists for its history alone has made room.
    bool is_full(const std::string& key) {
        auto& channels = objects_[key].channels;
        if (channels.size() < kMaxChannels) return false;
        for (auto at = channels.begin(); at != channels.end(); ++at) {
            if (at->second->live != 0) continue;
            const bool is_gone = workers_[0]->locked([&](ZoneLock& lock) {
                const ObjectRecord* object = find_object(lock, key);
                return object == nullptr || find_channel(lock, *object, at->first) == nullptr;
            });
            if (!is_gone) continue;
            channels.erase(at);
            return false;
        }
        return true;
    }

    void append(ModelObject& object, ModelChannel& channel, const std::string& text, const HistoryRule& rule,
                const PublishResult& result) {
        for (ModelReader& reader : readers_) {
            if (reader.channel.get() != &channel || !reader.is_live()) continue;
            if (reader.unread_bytes + text.size() > kBacklog) {
                reader.state = CursorState::dropped;
                reader.unread.clear();
                channel.live -= reader.weight;
            } else {
                reader.unread.push_back(text);
                reader.unread_bytes += text.size();
            }
        }
        if (channel.live == 0 && rule.messages == 0) return;
        const std::uint64_t number = ++object.last_number;
        if (rule.messages == 0) return;
        if (object.epoch == 0) object.epoch = rule.new_epoch;
        CPPUNIT_ASSERT_EQUAL(number, result.number);
        CPPUNIT_ASSERT_EQUAL(object.epoch, result.epoch);
        channel.history.push_back({number, text, now_});
        while (channel.history.size() > rule.messages) channel.history.pop_front();
        drop_old(channel, rule.max_age_ms);
    }

    void open_one() {
        if (readers_.size() > 14) return;
        ModelReader reader;
        reader.object = "o" + std::to_string(below(2));
        const std::string name = "c" + std::to_string(below(5));
        reader.worker = below(3);
        const bool is_subscription = below(2) == 0;
        const StartAt start =
            is_subscription || below(2) == 0
                ? StartAt{}
                : StartAt{StartAt::after, below(static_cast<std::uint32_t>(objects_[reader.object].last_number + 1))};
        auto channel = find(reader.object, name);
        // A reader from the past would also see what is only left for others, which the model does not keep.
        if (start.kind == StartAt::after && channel != nullptr && channel->live != 0) return forget_unneeded();
        const ChannelOutcome outcome = open_record(reader, name, start, is_subscription);
        if (channel == nullptr && is_full(reader.object)) {
            CPPUNIT_ASSERT(outcome == ChannelOutcome::channel_limit);
        } else if (channel != nullptr && channel->live >= kMaxSubscriptions) {
            CPPUNIT_ASSERT(outcome == ChannelOutcome::subscription_limit);
        } else {
            CPPUNIT_ASSERT(outcome == ChannelOutcome::ok);
            if (channel == nullptr) channel = objects_[reader.object].channels[name] = std::make_shared<ModelChannel>();
            ++channel->live;
            reader.channel = channel;
            for (const auto& kept : channel->history) {
                if (start.kind != StartAt::after || kept.number <= start.number) continue;
                reader.unread.push_back(kept.text);
                reader.unread_bytes += kept.text.size();
            }
            readers_.push_back(reader);
        }
        forget_unneeded();
    }

    ChannelOutcome open_record(ModelReader& reader, const std::string& name, StartAt start, bool is_subscription) {
        Worker& worker = *workers_[reader.worker];
        if (is_subscription) {
            auto event = events_.find(reader.object);
            if (event == events_.end())
                event = events_.emplace(reader.object, worker.bind(++event_names_, reader.object)).first;
            reader.event = event->second;
            const SubscribeResult result = any_worker().subscribe(reader.event, name);
            reader.handle = result.handle;
            return result.outcome;
        }
        return worker.locked([&](ZoneLock& lock) {
            reader.cursor = create_cursor(lock);
            const auto outcome = open_cursor(lock, *reader.cursor, reader.object, name, start);
            if (outcome != ChannelOutcome::ok) {
                destroy_cursor(lock, reader.cursor);
            } else if (below(2) == 0) {
                CPPUNIT_ASSERT(await_messages(lock, *reader.cursor));
            }
            return outcome;
        });
    }

    void read_some(ModelReader& reader) {
        for (std::uint32_t count = 1 + below(4); count > 0; --count) {
            if (reader.cursor == nullptr) {
                CPPUNIT_ASSERT_EQUAL(expected_poll(reader), any_worker().poll(reader.event, reader.handle));
            } else {
                read_cursor(reader);
            }
            if (reader.state != CursorState::reading || reader.unread.empty()) return;
            reader.unread_bytes -= reader.unread.front().size();
            reader.unread.pop_front();
        }
    }

    static std::string expected_poll(const ModelReader& reader) {
        if (reader.state == CursorState::dropped) return "backlog";
        if (reader.state == CursorState::cancelled) return "cancelled";
        if (!reader.unread.empty()) return "message:" + reader.unread.front();
        return reader.channel->is_closed ? "closed:" + reader.channel->reason : "nothing";
    }

    void read_cursor(ModelReader& reader) {
        CursorRecord& cursor = *reader.cursor;
        CPPUNIT_ASSERT(cursor.state == reader.state);
        CPPUNIT_ASSERT_EQUAL(reader.weight, cursor.weight);
        workers_[reader.worker]->locked([&](ZoneLock& lock) {
            const MessageRecord* message = next_message(cursor);
            CPPUNIT_ASSERT_EQUAL(reader.unread.empty(), message == nullptr);
            if (message == nullptr) {
                const bool is_over = reader.state == CursorState::reading && reader.channel->is_closed;
                CPPUNIT_ASSERT_EQUAL(is_over, is_drained(cursor));
                return;
            }
            std::string text;
            TextChain{message->text, message->size + message->event_size}.append_to(text, message->event_size);
            CPPUNIT_ASSERT_EQUAL(reader.unread.front(), text);
            move_on(lock, cursor);
        });
    }

    void change_weight(std::size_t index) {
        ModelReader& reader = readers_[index];
        if (reader.cursor == nullptr) return;
        workers_[reader.worker]->locked([&](ZoneLock& lock) {
            if (reader.weight > 1 && below(2) == 0) {
                const std::uint32_t weight = 1 + below(reader.weight - 1);
                ModelReader part = reader;
                part.cursor = split_cursor(lock, *reader.cursor, weight);
                part.weight = weight;
                readers_[index].weight -= weight;
                readers_.push_back(part);
            } else if (reader.weight > 1 && below(2) == 0) {
                remove_subscription(lock, *reader.cursor);
                --reader.weight;
                if (reader.is_live()) --reader.channel->live;
            } else if (reader.is_live() && reader.unread.empty()) {
                const bool is_full = reader.channel->live >= kMaxSubscriptions;
                CPPUNIT_ASSERT((add_subscription(lock, *reader.cursor) == ChannelOutcome::ok) == !is_full);
                if (is_full) return;
                ++reader.weight;
                ++reader.channel->live;
            }
        });
    }

    void join_with_any(std::size_t index) {
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            ModelReader& into = readers_[index];
            ModelReader& from = readers_[i];
            if (i == index || into.cursor == nullptr || from.cursor == nullptr || into.worker != from.worker) continue;
            if (into.cursor->at == nullptr || into.cursor->at != from.cursor->at) continue;
            workers_[into.worker]->locked([&](ZoneLock& lock) { join_cursor(lock, *into.cursor, *from.cursor); });
            into.weight += from.weight;
            readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
            return;
        }
    }

    void end_reader(std::size_t index) {
        ModelReader& reader = readers_[index];
        if (reader.is_live()) reader.channel->live -= reader.weight;
        if (reader.cursor != nullptr) {
            workers_[reader.worker]->destroy(reader.cursor);
        } else if (below(2) == 0 && reader.state == CursorState::reading) {
            any_worker().cancel(reader.event, reader.handle);
            const bool was_over = reader.channel->is_closed && reader.unread.empty();
            const std::string reason = was_over ? "closed:" + reader.channel->reason : std::string("cancelled");
            CPPUNIT_ASSERT_EQUAL(reason, any_worker().poll(reader.event, reader.handle));
            any_worker().locked([&](ZoneLock& lock) { free_record(lock, reader); });
        } else {
            any_worker().locked([&](ZoneLock& lock) { free_record(lock, reader); });
        }
        readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(index));
        forget_unneeded();
    }

    static void free_record(ZoneLock& lock, const ModelReader& reader) {
        free_subscription(lock, *find_subscription(lock, *find_event(lock, reader.event), reader.handle));
    }

    void close_one() {
        const std::string object = "o" + std::to_string(below(2));
        const std::string name = "c" + std::to_string(below(5));
        const std::string reason = "reason " + std::to_string(++texts_);
        const CloseResult result =
            any_worker().locked([&](ZoneLock& lock) { return close_channel(lock, object, name, reason); });
        const auto channel = find(object, name);
        CPPUNIT_ASSERT_EQUAL(channel == nullptr ? 0u : channel->live, result.closed);
        if (channel != nullptr) {
            channel->is_closed = true;
            channel->live = 0;
            channel->reason = reason;
        }
        forget_unneeded();
    }

    void look() {
        Worker& worker = any_worker();
        worker.look();
        worker.locked([](ZoneLock& lock) { free_leftovers(lock); });
    }

    void check() {
        CPPUNIT_ASSERT_EQUAL(std::string(),
                             find_fault(root_, [this](const void* block) { return memory_.owns(block); }));
        CPPUNIT_ASSERT_EQUAL(count_reachable(root_), memory_.live_blocks());
        CPPUNIT_ASSERT_EQUAL(objects_.size(), static_cast<std::size_t>(root_.objects.count()));
        for (const auto& [key, object] : objects_) {
            for (const auto& [name, channel] : object.channels) {
                CPPUNIT_ASSERT_EQUAL(channel->live, workers_[0]->count(name, key));
                check_history(key, name, *channel);
            }
        }
    }

    void check_history(const std::string& key, const std::string& name, const ModelChannel& channel) {
        workers_[0]->locked([&](ZoneLock& lock) {
            const ChannelRecord* record = find_channel(lock, *find_object(lock, key), name);
            CPPUNIT_ASSERT(record != nullptr);
            CPPUNIT_ASSERT_EQUAL(channel.history.size(), static_cast<std::size_t>(record->kept));
            CPPUNIT_ASSERT_EQUAL(channel.history.empty() ? 0 : channel.history.front().number, oldest_kept(*record));
        });
    }

    // Ends all that is left: nothing may remain in the zone.
    void finish() {
        for (const auto& worker : workers_) {
            workers_[0]->locked([&](ZoneLock& lock) { forget_worker(lock, worker->self().slot); });
        }
        workers_[0]->locked([&](ZoneLock& lock) {
            for (const char* object : {"o0", "o1"}) {
                for (int i = 0; i < 5; ++i) (void)close_channel(lock, object, "c" + std::to_string(i), "");
            }
            while (free_leftovers(lock)) {}
        });
        CPPUNIT_ASSERT_EQUAL(base_, memory_.live_blocks());
    }

    HeapMemory memory_;
    ZoneRoot& root_ = *make_root(memory_);
    std::vector<std::unique_ptr<Worker>> workers_;
    std::mt19937 random_;
    std::map<std::string, ModelObject> objects_;
    std::map<std::string, EventToken> events_;  // one for each object, never ended before the end
    std::vector<ModelReader> readers_;
    std::uint64_t now_ = kNow;
    std::uint64_t texts_ = 0;
    std::uint8_t event_names_ = 0;
    std::size_t base_ = 0;
};

class ZoneModelTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(ZoneModelTest);
    CPPUNIT_TEST(channels_behave_as_the_model);
    CPPUNIT_TEST(the_zone_is_sound_after_random_work);
    CPPUNIT_TEST_SUITE_END();

public:
    void channels_behave_as_the_model() {
        for (const std::uint32_t seed : seeds()) {
            announce_failure(seed, [&] { Model(seed).run(1500); });
        }
    }

    void the_zone_is_sound_after_random_work() {
        for (const std::uint32_t seed : seeds()) {
            announce_failure(seed, [&] { work_and_check(seed); });
        }
    }

private:
    static std::vector<std::uint32_t> seeds() { return {1, 2, 3, 4, static_cast<std::uint32_t>(getpid())}; }

    template <class Body>
    static void announce_failure(std::uint32_t seed, Body&& body) {
        try {
            body();
        } catch (CppUnit::Exception& failure) {
            failure.setMessage(CppUnit::Message("seed " + std::to_string(seed), failure.message().shortDescription(),
                                                failure.message().details()));
            throw;
        }
    }

    // Now and then no memory is left, or a worker dies.
    static void work_and_check(std::uint32_t seed) {
        HeapMemory memory;
        ZoneRoot& root = *make_root(memory);
        const IsLive is_live = [&](const void* block) { return memory.owns(block); };
        std::vector<std::unique_ptr<Worker>> workers;
        RandomWork work(seed);
        for (std::uint32_t i = 0; i < 1500; ++i) {
            while (workers.size() < 4) {
                workers.push_back(std::make_unique<Worker>(memory, root, 100 + i));
                workers.back()->zone().limits = {2, 8, 12000};
            }
            if (work.below(10) == 0) memory.fail_after(static_cast<int>(work.below(3)));
            work.step(*workers[work.below(4)]);
            memory.fail_after(-1);
            if (work.below(100) == 0) {
                workers[0]->locked([&](ZoneLock& lock) { forget_worker(lock, workers.back()->self().slot); });
                workers.pop_back();
            }
            if (i % 4 != 0) continue;
            expect_consistent(root, is_live);
            CPPUNIT_ASSERT_EQUAL(count_reachable(root), memory.live_blocks());
        }
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ZoneModelTest);

}  // namespace

}  // namespace durable
