// SPDX-License-Identifier: BSD-2-Clause
// Live streams and acknowledgements (E-30 to E-33), within one process and between two store threads on one file.
#include <cppunit/extensions/HelperMacros.h>

#include "core/tests/http_receiver.h"
#include "core/tests/store_probe.h"

namespace {

using durable_test::HttpReceiver;
using durable_test::ScratchFolder;
using durable_test::StoreProbe;

class EventsStreamsTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(EventsStreamsTest);
    CPPUNIT_TEST(a_session_stream_gets_what_it_asked_for_E_30);
    CPPUNIT_TEST(a_session_resumes_each_exactly_once_E_30);
    CPPUNIT_TEST(an_unusable_id_is_a_gap_E_30);
    CPPUNIT_TEST(a_trimmed_log_is_a_gap_E_30);
    CPPUNIT_TEST(an_accounts_stream_carries_its_apps_E_30);
    CPPUNIT_TEST(other_workers_commits_arrive_E_32);
    CPPUNIT_TEST(a_slow_stream_gets_one_batch_at_a_time_E_32);
    CPPUNIT_TEST(rows_hear_nothing_from_before_they_were_made_E_32);
    CPPUNIT_TEST(single_goes_to_one_stream_and_in_order_E_33);
    CPPUNIT_TEST(an_ack_settles_once_E_31);
    CPPUNIT_TEST(a_lease_runs_out_twice_before_the_handler_is_called_E_33);
    CPPUNIT_TEST(a_closed_stream_gives_its_delivery_back_E_33);
    CPPUNIT_TEST(a_stream_on_another_worker_takes_single_deliveries_E_33);
    CPPUNIT_TEST_SUITE_END();

    ScratchFolder folder_;
    std::unique_ptr<HttpReceiver> handler_;
    std::unique_ptr<StoreProbe> store_;

    static std::size_t count(const std::string& text, const std::string& part) {
        std::size_t found = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
        return found;
    }
    std::vector<durable::HandlerSettings> handlers() const { return {{"hook", handler_->url(), "secret", 2000}}; }
    void publish(const std::string& topic, const std::string& data = "null", StoreProbe* on = nullptr) {
        const auto done =
            (on != nullptr ? on : store_.get())->publish(R"({"subject":"topic:)" + topic + R"(","data":)" + data + "}");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(done.body, 200, done.status);
    }
    std::string subscribe_single(const std::string& topic) {
        const auto made =
            store_->subscribe(R"({"subject":"topic:)" + topic + R"(","delivery":"single","handlerName":"hook"})");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(made.body, 200, made.status);
        return StoreProbe::member(made.body, "subId");
    }
    int acknowledge(const std::string& sub_id, const std::string& ack_id) {
        return store_
            ->call(durable::AckJob{{"alice", std::nullopt}, R"({"subId":")" + sub_id + R"(","id":")" + ack_id + "\"}"})
            .status;
    }
    static std::string ack_id(const std::string& frames, const std::string& after) {
        return StoreProbe::member(frames.substr(frames.find(after)), "ackId");
    }
    // Long enough for something that must not come.
    void let_pass(int ms) {
        for (int i = 0; i < ms / 10; ++i) store_->collect(10);
    }

public:
    void setUp() override {
        handler_ = std::make_unique<HttpReceiver>();
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers());
    }
    void tearDown() override {
        store_.reset();
        handler_.reset();
    }

    // E-30
    void a_session_stream_gets_what_it_asked_for_E_30() {
        publish("a", "\"early\"");
        const std::uint64_t stream = store_->open_stream("topic:a*");
        publish("b");
        publish("ab", "{\"n\": 1}");
        const std::string text = store_->stream_text(stream, "\n\n");
        CPPUNIT_ASSERT_EQUAL(std::string("event: delivery\nid: 3\ndata: {\"subId\":\"user#"), text.substr(0, 43));
        CPPUNIT_ASSERT(text.find(R"("topic":"ab","data":{"n":1},"self":false)") != std::string::npos);
        CPPUNIT_ASSERT(text.find("ackRequired") == std::string::npos);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(text, "event: delivery"));
        const auto refused = store_->call(durable::OpenStreamJob{{"alice", std::nullopt}, "topic:a*b", std::nullopt});
        CPPUNIT_ASSERT_EQUAL(400, refused.status);
        CPPUNIT_ASSERT_EQUAL(std::string("invalid_subject_pattern"), StoreProbe::member(refused.body, "code"));
        CPPUNIT_ASSERT(store_->call(durable::ListJob{{"alice", std::nullopt}, ""}).body == "{\"items\":[]}");
        store_->submit(durable::CloseStreamJob{stream});
        publish("ab", "\"late\"");
        let_pass(100);
        CPPUNIT_ASSERT(store_->stream_text(stream, "", 0).find("late") == std::string::npos);
    }

    // E-30
    void a_session_resumes_each_exactly_once_E_30() {
        for (int i = 1; i <= 450; ++i) publish("a", std::to_string(i));
        const std::uint64_t stream = store_->open_stream("topic:a", "alice", std::nullopt, "3");
        for (int i = 451; i <= 460; ++i) publish("a", std::to_string(i));
        const std::string text = store_->stream_text(stream, "\nid: 460\n");
        CPPUNIT_ASSERT_EQUAL(std::size_t{457}, count(text, "event: delivery"));
        std::size_t at = 0;
        for (int i = 4; i <= 460; ++i) {
            at = text.find("\nid: " + std::to_string(i) + "\n", at);
            CPPUNIT_ASSERT_MESSAGE(std::to_string(i), at != std::string::npos);
        }
        CPPUNIT_ASSERT(text.find("event: gap") == std::string::npos);
        const std::uint64_t at_head = store_->open_stream("topic:a", "alice", std::nullopt, "460");
        publish("a", "461");
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(store_->stream_text(at_head, "\nid: 461\n"), "event: "));
    }

    // E-30
    void an_unusable_id_is_a_gap_E_30() {
        publish("a", "1");
        for (const char* id : {"2", "abc", "-1", "1x", "99999999999999999999"}) {
            const std::uint64_t stream = store_->open_stream("topic:a", "alice", std::nullopt, id);
            CPPUNIT_ASSERT_EQUAL_MESSAGE(id, std::string("event: gap\n"),
                                         store_->stream_text(stream, "\n\n").substr(0, 11));
            store_->submit(durable::CloseStreamJob{stream});
        }
        const std::uint64_t stream = store_->open_stream("topic:a", "alice", std::nullopt, "7");
        publish("a", "\"new\"");
        const std::string text = store_->stream_text(stream, "new");
        CPPUNIT_ASSERT_EQUAL(std::string("event: gap\n"), text.substr(0, 11));
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(text, "event: delivery"));
    }

    // E-30
    void a_trimmed_log_is_a_gap_E_30() {
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers(), durable::Retention{600000, 5});
        for (int i = 0; i < 20; ++i) publish("a");
        let_pass(2500);
        const std::uint64_t late = store_->open_stream("topic:a", "alice", std::nullopt, "3");
        CPPUNIT_ASSERT_EQUAL(std::string("event: gap\n"), store_->stream_text(late, "\n\n").substr(0, 11));
        const std::uint64_t fine = store_->open_stream("topic:a", "alice", std::nullopt, "15");
        CPPUNIT_ASSERT_EQUAL(std::size_t{5}, count(store_->stream_text(fine, "\nid: 20\n"), "event: delivery"));
    }

    // E-30
    void an_accounts_stream_carries_its_apps_E_30() {
        const std::string one =
            StoreProbe::member(store_->subscribe(R"({"subject":"topic:a"})", "alice", "app1").body, "subId");
        const std::string two =
            StoreProbe::member(store_->subscribe(R"({"subject":"topic:*"})", "alice", "app2").body, "subId");
        store_->subscribe(R"({"subject":"topic:a","targets":["push"]})", "alice");
        store_->subscribe(R"({"subject":"topic:a"})", "bob");
        const std::uint64_t account = store_->open_stream();
        const std::uint64_t app = store_->open_stream(std::nullopt, "alice", "app1");
        publish("a", "\"first\"");
        publish("end");
        store_->subscribe(R"({"subject":"topic:end2"})", "alice", "app1");
        publish("end2");
        const std::string all = store_->stream_text(account, "\nid: 3\n");
        CPPUNIT_ASSERT_EQUAL(std::size_t{5}, count(all, "event: delivery"));
        CPPUNIT_ASSERT(all.find(one) != std::string::npos && all.find(two) != std::string::npos);
        const std::string own = store_->stream_text(app, "\nid: 3\n");
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(own, "event: delivery"));
        CPPUNIT_ASSERT(own.find(two) == std::string::npos);
    }

    // E-32
    void other_workers_commits_arrive_E_32() {
        StoreProbe other(folder_.store(), handlers());
        store_->subscribe(R"({"subject":"topic:a"})");
        const std::uint64_t here = store_->open_stream("topic:a");
        const std::uint64_t there = other.open_stream();
        const std::int64_t start = StoreProbe::real_now();
        publish("a", "\"x\"", &other);
        CPPUNIT_ASSERT(!store_->stream_text(here, "\n\n").empty());
        publish("a", "\"y\"");
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(other.stream_text(there, "\"y\""), "event: delivery"));
        CPPUNIT_ASSERT(StoreProbe::real_now() - start < 900);
    }

    // E-32
    void a_slow_stream_gets_one_batch_at_a_time_E_32() {
        store_->set_auto_ready(false);
        const std::uint64_t stream = store_->open_stream("topic:a");
        publish("a", "1");
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(store_->stream_text(stream, "\nid: 1\n"), "event: "));
        for (int i = 2; i <= 9; ++i) publish("a", '"' + std::string(60000, 'x') + '"');
        let_pass(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(store_->stream_text(stream, "", 0), "event: "));
        store_->submit(durable::StreamReadyJob{stream});
        const std::size_t second = count(store_->stream_text(stream, "\nid: 2\n"), "event: ");
        CPPUNIT_ASSERT(second > 1 && second < 9);
        store_->submit(durable::StreamReadyJob{stream});
        CPPUNIT_ASSERT_EQUAL(std::size_t{9}, count(store_->stream_text(stream, "\nid: 9\n"), "event: "));
    }

    // E-32
    void rows_hear_nothing_from_before_they_were_made_E_32() {
        store_->set_auto_ready(false);
        store_->subscribe(R"({"subject":"topic:first"})");
        const std::uint64_t stream = store_->open_stream();
        publish("first");
        CPPUNIT_ASSERT(!store_->stream_text(stream, "\n\n").empty());
        publish("a", "\"before\"");
        store_->subscribe(R"({"subject":"topic:a"})");
        publish("a", "\"after\"");
        store_->submit(durable::StreamReadyJob{stream});
        CPPUNIT_ASSERT(store_->stream_text(stream, "after").find("before") == std::string::npos);
    }

    // E-33
    void single_goes_to_one_stream_and_in_order_E_33() {
        const std::string sub_id = subscribe_single("a");
        const std::uint64_t first = store_->open_stream();
        const std::uint64_t second = store_->open_stream();
        for (int i = 1; i <= 5; ++i) publish("a", "\"n" + std::to_string(i) + '"');
        let_pass(200);
        for (int i = 1; i <= 5; ++i) {
            const std::string both = store_->stream_text(first, "", 0) + store_->stream_text(second, "", 0);
            const std::string mark = "\"n" + std::to_string(i) + '"';
            CPPUNIT_ASSERT_EQUAL(std::size_t(i), count(both, "\"ackRequired\":true"));
            CPPUNIT_ASSERT(both.find(mark) != std::string::npos);
            CPPUNIT_ASSERT_EQUAL(200, acknowledge(sub_id, ack_id(both, mark)));
            let_pass(100);
        }
        CPPUNIT_ASSERT(handler_->requests().empty());
    }

    // E-31
    void an_ack_settles_once_E_31() {
        const std::string sub_id = subscribe_single("a");
        const std::uint64_t stream = store_->open_stream();
        publish("a", "\"n1\"");
        publish("a", "\"n2\"");
        const std::string id = ack_id(store_->stream_text(stream, "ackId"), "n1");
        CPPUNIT_ASSERT_EQUAL(200, acknowledge(sub_id, id));
        store_->stream_text(stream, "n2");
        CPPUNIT_ASSERT_EQUAL(200, acknowledge(sub_id, id));
        CPPUNIT_ASSERT_EQUAL(200, acknowledge(sub_id, "no such id"));
        CPPUNIT_ASSERT_EQUAL(404, acknowledge("user#none", id));
        const auto foreign =
            store_->call(durable::AckJob{{"bob", std::nullopt}, R"({"subId":")" + sub_id + R"(","id":"x"})"});
        CPPUNIT_ASSERT_EQUAL(404, foreign.status);
        CPPUNIT_ASSERT_EQUAL(400, store_->call(durable::AckJob{{"alice", std::nullopt}, R"({"subId":"x"})"}).status);
        let_pass(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(store_->stream_text(stream, "", 0), "event: delivery"));
    }

    // E-33
    void a_lease_runs_out_twice_before_the_handler_is_called_E_33() {
        subscribe_single("a");
        const std::uint64_t stream = store_->open_stream();
        publish("a", "\"n1\"");
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(store_->stream_text(stream, "ackId"), "event: delivery"));
        store_->advance(59000);
        let_pass(1500);
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(store_->stream_text(stream, "", 0), "event: delivery") +
                                                 (handler_->requests().empty() ? 0 : 100));
        store_->advance(61000);
        CPPUNIT_ASSERT(handler_->wait_for(1));
        let_pass(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(store_->stream_text(stream, "", 0), "event: delivery"));
    }

    // E-33
    void a_closed_stream_gives_its_delivery_back_E_33() {
        subscribe_single("a");
        const std::uint64_t stream = store_->open_stream();
        publish("a", "\"n1\"");
        store_->stream_text(stream, "ackId");
        store_->submit(durable::CloseStreamJob{stream});
        CPPUNIT_ASSERT(handler_->wait_for(1, 3));
    }

    // E-33
    void a_stream_on_another_worker_takes_single_deliveries_E_33() {
        const std::string sub_id = subscribe_single("a");
        StoreProbe other(folder_.store(), handlers());
        const std::uint64_t stream = other.open_stream();
        publish("a", "\"n1\"");
        const std::string text = other.stream_text(stream, "ackId");
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(text, "event: delivery"));
        CPPUNIT_ASSERT_EQUAL(200, acknowledge(sub_id, ack_id(text, "n1")));
        let_pass(300);
        CPPUNIT_ASSERT(handler_->requests().empty());
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EventsStreamsTest);

}  // namespace
