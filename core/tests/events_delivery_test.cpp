// SPDX-License-Identifier: BSD-2-Clause
// Handlers: signed calls, retries, failures, suspension and resumption, who delivers (E-32 to E-39).
#include <cppunit/extensions/HelperMacros.h>

#include <algorithm>
#include <sstream>

#include "core/digest.h"
#include "core/tests/http_receiver.h"
#include "core/tests/store_probe.h"
#include "core/webhook.h"

namespace {

using durable::CallResult;
using durable_test::HttpReceiver;
using durable_test::ScratchFolder;
using durable_test::StoreProbe;

class EventsDeliveryTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(EventsDeliveryTest);
    CPPUNIT_TEST(backoff_doubles_up_to_its_limit_E_34);
    CPPUNIT_TEST(statuses_settle_reject_or_fail_E_34);
    CPPUNIT_TEST(urls_are_http_or_https_E_34);
    CPPUNIT_TEST(a_call_is_signed_and_carries_the_context_E_34);
    CPPUNIT_TEST(broadcast_calls_the_handler_at_most_once_E_32);
    CPPUNIT_TEST(single_is_delivered_in_order_one_in_flight_E_33);
    CPPUNIT_TEST(a_failed_call_is_retried_with_the_same_id_E_34);
    CPPUNIT_TEST(retry_after_is_respected_E_34);
    CPPUNIT_TEST(redirects_are_not_followed_E_34);
    CPPUNIT_TEST(a_rejected_delivery_leaves_a_gap_E_34);
    CPPUNIT_TEST(a_rejected_broadcast_leaves_a_gap_for_streams_too_E_34);
    CPPUNIT_TEST(a_handler_that_hangs_times_out_and_holds_up_no_other_E_34);
    CPPUNIT_TEST(five_failures_suspend_and_a_success_clears_the_run_E_35);
    CPPUNIT_TEST(a_suspended_row_keeps_its_newest_hundred_E_37);
    CPPUNIT_TEST(old_backlog_is_dropped_at_resumption_E_37);
    CPPUNIT_TEST(a_handler_that_goes_suspends_and_coming_back_resumes_E_37);
    CPPUNIT_TEST(a_changed_handler_resumes_failed_rows_E_37);
    CPPUNIT_TEST(a_second_thread_leaves_a_running_call_alone_E_36);
    CPPUNIT_TEST(one_thread_delivers_and_another_takes_over_E_36);
    CPPUNIT_TEST(a_newer_configuration_takes_over_from_a_living_thread_E_36);
    CPPUNIT_TEST(stopping_waits_for_no_webhook);
    CPPUNIT_TEST(certificates_are_checked_E_34);
    CPPUNIT_TEST_SUITE_END();

    ScratchFolder folder_;
    std::unique_ptr<HttpReceiver> handler_;
    std::unique_ptr<StoreProbe> store_;

    void start(
        HttpReceiver::Answer answer = [](const HttpReceiver::Request&,
                                         std::size_t) { return HttpReceiver::status(204); },
        std::int64_t timeout_ms = 2000) {
        handler_ = std::make_unique<HttpReceiver>(std::move(answer));
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers(timeout_ms));
    }
    std::vector<durable::HandlerSettings> handlers(std::int64_t timeout_ms = 2000) const {
        return {{"hook", handler_->url(), "secret", timeout_ms}};
    }
    std::string subscribe(const std::string& more, const std::string& subject = "topic:a") {
        const auto made = store_->subscribe(R"({"subject":")" + subject + R"(","handlerName":"hook")" + more + "}");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(made.body, 200, made.status);
        return StoreProbe::member(made.body, "subId");
    }
    void publish(const std::string& data, const std::string& topic = "a") {
        const auto done = store_->publish(R"({"subject":"topic:)" + topic + R"(","data":)" + data + "}");
        CPPUNIT_ASSERT_EQUAL_MESSAGE(done.body, 200, done.status);
    }
    std::string listed(const std::string& name) {
        return StoreProbe::member(store_->call(durable::ListJob{{"alice", std::nullopt}, ""}).body, name);
    }
    bool wait_until_listed(const std::string& name, const std::string& value) {
        for (int i = 0; i < 300 && listed(name) != value; ++i) store_->collect(20);
        return listed(name) == value;
    }
    void let_pass(int ms) {
        for (int i = 0; i < ms / 10; ++i) store_->collect(10);
    }
    // Lets the clock run until so many calls were made.
    bool advance_until(std::size_t calls) {
        for (int i = 0; i < 200 && handler_->requests().size() < calls; ++i) {
            store_->advance(2000);
            let_pass(50);
        }
        return handler_->requests().size() >= calls;
    }
    static std::string data_of(const HttpReceiver::Request& request) {
        return StoreProbe::member(request.body, "data");
    }

public:
    void tearDown() override {
        store_.reset();
        handler_.reset();
    }

    // E-34
    void backoff_doubles_up_to_its_limit_E_34() {
        CPPUNIT_ASSERT_EQUAL(std::int64_t{2000}, durable::backoff_ms(1));
        CPPUNIT_ASSERT_EQUAL(std::int64_t{4000}, durable::backoff_ms(2));
        CPPUNIT_ASSERT_EQUAL(std::int64_t{256000}, durable::backoff_ms(8));
        CPPUNIT_ASSERT_EQUAL(std::int64_t{300000}, durable::backoff_ms(9));
        CPPUNIT_ASSERT_EQUAL(std::int64_t{300000}, durable::backoff_ms(1000));
    }

    // E-34
    void statuses_settle_reject_or_fail_E_34() {
        for (const int status : {200, 204, 299})
            CPPUNIT_ASSERT(durable::judge_status(status) == CallResult::Kind::settled);
        for (const int status : {400, 404, 410, 422, 499})
            CPPUNIT_ASSERT(durable::judge_status(status) == CallResult::Kind::rejected);
        for (const int status : {301, 304, 307, 408, 425, 429, 500, 503, 600}) {
            CPPUNIT_ASSERT(durable::judge_status(status) == CallResult::Kind::failed);
        }
    }

    // E-34
    void urls_are_http_or_https_E_34() {
        const auto url = durable::parse_webhook_url("https://[::1]:8443?a=b#c");
        CPPUNIT_ASSERT(url && url->is_secure && url->host == "::1" && url->port == 8443 && url->target == "/?a=b");
        CPPUNIT_ASSERT_EQUAL(std::string("[::1]:8443"), url->authority);
        const auto plain = durable::parse_webhook_url("http://example.test/x/y");
        CPPUNIT_ASSERT(plain && plain->port == 80 && plain->host == "example.test" && plain->target == "/x/y");
        for (const char* bad :
             {"", "ftp://a/", "http://", "http:///x", "http://u@h/", "http://h:0/", "http://h:99999/", "http://h:/",
              "http://h:1x/", "http://h/a b", "http://[::1/", "http://h/\r\nX: y", "h/x"}) {
            CPPUNIT_ASSERT_MESSAGE(bad, !durable::parse_webhook_url(bad));
        }
    }

    // E-34
    void a_call_is_signed_and_carries_the_context_E_34() {
        start();
        subscribe(R"(,"delivery":"single","context":{"key":"hidden value"})");
        publish("[1, 2]");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        const HttpReceiver::Request request = handler_->requests()[0];
        CPPUNIT_ASSERT_EQUAL(std::string("POST /hook HTTP/1.1\r\n"), request.head.substr(0, 21));
        CPPUNIT_ASSERT_EQUAL(std::string("application/json"), HttpReceiver::header(request, "Content-Type"));
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"handler":"hook","event":{"id":")"), request.body.substr(0, 33));
        CPPUNIT_ASSERT(request.body.find(R"("data":[1,2],)") != std::string::npos);
        CPPUNIT_ASSERT(request.body.find(R"(,"context":{"key":"hidden value"}})") != std::string::npos);
        const std::string id = HttpReceiver::header(request, "webhook-id");
        const std::string timestamp = HttpReceiver::header(request, "webhook-timestamp");
        CPPUNIT_ASSERT(std::abs(std::stoll(timestamp) - StoreProbe::real_now() / 1000) < 10);
        const std::string mac = durable::hmac_sha256("secret", id + '.' + timestamp + '.' + request.body);
        CPPUNIT_ASSERT_EQUAL("v1," + durable::base64_encode(mac), HttpReceiver::header(request, "webhook-signature"));
        CPPUNIT_ASSERT(store_->call(durable::ListJob{{"alice", std::nullopt}, ""}).body.find("hidden") ==
                       std::string::npos);
        CPPUNIT_ASSERT(store_->notices().find("hidden") == std::string::npos);
    }

    // E-32
    void broadcast_calls_the_handler_at_most_once_E_32() {
        start([](const HttpReceiver::Request&, std::size_t) { return HttpReceiver::status(500); });
        subscribe(R"(,"targets":["worker"])");
        subscribe(R"(,"targets":["socket"])");
        publish("1");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        for (int i = 0; i < 10; ++i) {
            store_->advance(10000);
            let_pass(50);
        }
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, handler_->requests().size());
    }

    // E-33
    void single_is_delivered_in_order_one_in_flight_E_33() {
        std::atomic<int> running{0};
        std::atomic<int> most{0};
        start([&](const HttpReceiver::Request&, std::size_t) {
            most = std::max<int>(most, ++running);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            --running;
            return HttpReceiver::status(200);
        });
        subscribe(R"(,"delivery":"single")");
        for (int i = 0; i < 30; ++i) publish(std::to_string(i));
        CPPUNIT_ASSERT(handler_->wait_for(30));
        const auto requests = handler_->requests();
        for (int i = 0; i < 30; ++i)
            CPPUNIT_ASSERT_EQUAL(std::to_string(i), data_of(requests[static_cast<std::size_t>(i)]));
        CPPUNIT_ASSERT_EQUAL(1, most.load());
    }

    // E-34
    void a_failed_call_is_retried_with_the_same_id_E_34() {
        start([](const HttpReceiver::Request&, std::size_t before) {
            return HttpReceiver::status(before < 2 ? 503 : 200);
        });
        subscribe(R"(,"delivery":"single")");
        publish("1");
        publish("2");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        let_pass(1000);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, handler_->requests().size());
        CPPUNIT_ASSERT(handler_->wait_for(2, 3));
        store_->advance(3000);
        let_pass(200);
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, handler_->requests().size());
        store_->advance(1100);
        CPPUNIT_ASSERT(handler_->wait_for(4));
        const auto requests = handler_->requests();
        CPPUNIT_ASSERT_EQUAL(HttpReceiver::header(requests[0], "webhook-id"),
                             HttpReceiver::header(requests[2], "webhook-id"));
        CPPUNIT_ASSERT(HttpReceiver::header(requests[2], "webhook-id") !=
                       HttpReceiver::header(requests[3], "webhook-id"));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), data_of(requests[3]));
    }

    // E-34
    void retry_after_is_respected_E_34() {
        start([](const HttpReceiver::Request&, std::size_t before) {
            return HttpReceiver::status(before == 0 ? 429 : 200, before == 0 ? "Retry-After: 30\r\n" : "");
        });
        subscribe(R"(,"delivery":"single")");
        publish("1");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        let_pass(100);
        store_->advance(28000);
        let_pass(1200);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, handler_->requests().size());
        store_->advance(2000);
        CPPUNIT_ASSERT(handler_->wait_for(2));
    }

    // E-34
    void redirects_are_not_followed_E_34() {
        start([&](const HttpReceiver::Request&, std::size_t before) {
            return before == 0 ? HttpReceiver::status(307, "Location: /elsewhere\r\n") : HttpReceiver::status(200);
        });
        subscribe(R"(,"delivery":"single")");
        publish("1");
        CPPUNIT_ASSERT(handler_->wait_for(2, 5));
        for (const auto& request : handler_->requests()) CPPUNIT_ASSERT(request.head.find("POST /hook ") == 0);
    }

    // E-34
    void a_rejected_delivery_leaves_a_gap_E_34() {
        start([](const HttpReceiver::Request& request, std::size_t) {
            return HttpReceiver::status(request.body.find("\"bad\"") != std::string::npos ? 400 : 200);
        });
        const std::string sub_id = subscribe(R"(,"delivery":"single")");
        publish("\"bad\"");
        CPPUNIT_ASSERT(handler_->wait_for(2));
        const std::string gap = handler_->requests()[1].body;
        CPPUNIT_ASSERT(gap.find(R"("subject":"topic:a","op":"gap","reason":"handler_rejected")") != std::string::npos);
        publish("2");
        CPPUNIT_ASSERT(handler_->wait_for(3));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), data_of(handler_->requests()[2]));
        const auto fetched = store_->call(durable::FetchJob{{"alice", std::nullopt}, "subject=topic:a"});
        CPPUNIT_ASSERT(fetched.body.find("gap") == std::string::npos);
    }

    // E-34
    void a_rejected_broadcast_leaves_a_gap_for_streams_too_E_34() {
        start([](const HttpReceiver::Request&, std::size_t) { return HttpReceiver::status(410); });
        subscribe("");
        const std::uint64_t stream = store_->open_stream();
        const std::uint64_t session = store_->open_stream("topic:*");
        publish("1");
        const std::string text = store_->stream_text(stream, "handler_rejected");
        CPPUNIT_ASSERT(text.find(R"("op":"gap","reason":"handler_rejected")") != std::string::npos);
        CPPUNIT_ASSERT(handler_->wait_for(2));
        let_pass(300);
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, handler_->requests().size());
        CPPUNIT_ASSERT(store_->stream_text(session, "", 0).find("gap") == std::string::npos);
    }

    // E-34
    void a_handler_that_hangs_times_out_and_holds_up_no_other_E_34() {
        start([](const HttpReceiver::Request&, std::size_t) { return std::string(); }, 1500);
        HttpReceiver healthy;
        std::vector<durable::HandlerSettings> both = handlers(1500);
        both.push_back({"good", healthy.url(), "", 1500});
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), both);
        for (int i = 0; i < 40; ++i) subscribe(R"(,"delivery":"single")");
        store_->subscribe(R"({"subject":"topic:a","delivery":"single","handlerName":"good"})");
        const std::int64_t start_at = StoreProbe::real_now();
        publish("1");
        CPPUNIT_ASSERT(healthy.wait_for(1));
        CPPUNIT_ASSERT(StoreProbe::real_now() - start_at < 1000);
        CPPUNIT_ASSERT_EQUAL(std::string(), HttpReceiver::header(healthy.requests()[0], "webhook-signature"));
        CPPUNIT_ASSERT(handler_->requests().size() <= 16);
        CPPUNIT_ASSERT(handler_->wait_for(17, 5));
    }

    // E-35
    void five_failures_suspend_and_a_success_clears_the_run_E_35() {
        start([](const HttpReceiver::Request&, std::size_t before) {
            return HttpReceiver::status(before == 4 ? 200 : 500);
        });
        subscribe(R"(,"delivery":"single")");
        publish("1");
        CPPUNIT_ASSERT(advance_until(5));
        let_pass(200);
        publish("2");
        CPPUNIT_ASSERT(advance_until(9));
        let_pass(100);
        CPPUNIT_ASSERT_EQUAL(std::string("null"), listed("suspendedReason"));
        CPPUNIT_ASSERT(advance_until(10));
        CPPUNIT_ASSERT(wait_until_listed("suspendedReason", "failures"));
        store_->advance(600000);
        let_pass(300);
        CPPUNIT_ASSERT_EQUAL(std::size_t{10}, handler_->requests().size());
        CPPUNIT_ASSERT_EQUAL(std::string("{\"changed\":1}"),
                             store_->call(durable::ResumeJob{R"({"account":"alice"})"}).body);
        CPPUNIT_ASSERT(handler_->wait_for(11));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), data_of(handler_->requests()[10]));
    }

    // E-37
    void a_suspended_row_keeps_its_newest_hundred_E_37() {
        start();
        subscribe(R"(,"delivery":"single")");
        store_->call(durable::SuspendJob{R"({"account":"alice","reason":"no_credit"})"});
        std::vector<std::uint64_t> ids;
        for (int i = 0; i < 130; ++i)
            ids.push_back(
                store_->submit(durable::PublishJob{R"({"subject":"topic:a","data":)" + std::to_string(i) + "}"}));
        for (const std::uint64_t id : ids) CPPUNIT_ASSERT_EQUAL(200, store_->answer_of(id).status);
        store_->call(durable::ResumeJob{R"({"account":"alice","reason":"no_credit"})"});
        CPPUNIT_ASSERT(handler_->wait_for(100));
        let_pass(200);
        CPPUNIT_ASSERT_EQUAL(std::size_t{100}, handler_->requests().size());
        CPPUNIT_ASSERT_EQUAL(std::string("30"), data_of(handler_->requests()[0]));
        store_->call(durable::SuspendJob{R"({"account":"alice","reason":"permission_revoked"})"});
        publish("200");
        store_->call(durable::ResumeJob{R"({"account":"alice"})"});
        let_pass(200);
        CPPUNIT_ASSERT_EQUAL(std::size_t{100}, handler_->requests().size());
    }

    // E-37
    void old_backlog_is_dropped_at_resumption_E_37() {
        start();
        subscribe(R"(,"delivery":"single")");
        store_->call(durable::SuspendJob{R"({"account":"alice","reason":"no_credit"})"});
        publish("1");
        store_->advance(3601000);
        publish("2");
        store_->call(durable::ResumeJob{R"({"account":"alice"})"});
        CPPUNIT_ASSERT(handler_->wait_for(1));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), data_of(handler_->requests()[0]));
    }

    // E-37
    void a_handler_that_goes_suspends_and_coming_back_resumes_E_37() {
        start();
        subscribe(R"(,"delivery":"single")");
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store());
        CPPUNIT_ASSERT_EQUAL(std::string("handler_not_found"), listed("suspendedReason"));
        CPPUNIT_ASSERT_EQUAL(std::string("{\"changed\":0}"),
                             store_->call(durable::ResumeJob{R"({"account":"alice"})"}).body);
        publish("1");
        let_pass(200);
        CPPUNIT_ASSERT(handler_->requests().empty());
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers());
        CPPUNIT_ASSERT_EQUAL(std::string("null"), listed("suspendedReason"));
        CPPUNIT_ASSERT(handler_->wait_for(1));
    }

    // E-37
    void a_changed_handler_resumes_failed_rows_E_37() {
        start();
        subscribe(R"(,"delivery":"single")");
        store_->call(durable::SuspendJob{R"({"account":"alice","reason":"failures"})"});
        publish("1");
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers());
        CPPUNIT_ASSERT_EQUAL(std::string("failures"), listed("suspendedReason"));
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), handlers(3000));
        CPPUNIT_ASSERT_EQUAL(std::string("null"), listed("suspendedReason"));
        CPPUNIT_ASSERT(handler_->wait_for(1));
    }

    // E-36
    void a_second_thread_leaves_a_running_call_alone_E_36() {
        start(
            [](const HttpReceiver::Request&, std::size_t) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                return HttpReceiver::status(204);
            },
            5000);
        subscribe(R"(,"delivery":"single")");
        publish("1");
        let_pass(300);
        StoreProbe other(folder_.store(), handlers(5000));
        let_pass(3000);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, handler_->requests().size());
    }

    // E-36
    void one_thread_delivers_and_another_takes_over_E_36() {
        start();
        auto other = std::make_unique<StoreProbe>(folder_.store(), handlers());
        subscribe(R"(,"delivery":"single")");
        for (int i = 0; i < 20; ++i) publish(std::to_string(i));
        CPPUNIT_ASSERT(handler_->wait_for(20));
        let_pass(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{20}, handler_->requests().size());
        store_.swap(other);
        other.reset();
        publish("20");
        CPPUNIT_ASSERT(handler_->wait_for(21, 5));
    }

    // E-36
    void a_newer_configuration_takes_over_from_a_living_thread_E_36() {
        start();
        HttpReceiver newer;
        subscribe(R"(,"delivery":"single")");
        publish("1");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        StoreProbe reloaded(folder_.store(), {{"hook", newer.url(), "secret", 2000}});
        reloaded.subscribe(R"({"subject":"topic:none"})");
        let_pass(3000);
        publish("2");
        CPPUNIT_ASSERT(newer.wait_for(1, 5));
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, handler_->requests().size());
    }

    void stopping_waits_for_no_webhook() {
        start([](const HttpReceiver::Request&, std::size_t) { return std::string(); }, 30000);
        subscribe(R"(,"delivery":"single")");
        publish("1");
        CPPUNIT_ASSERT(handler_->wait_for(1));
        const std::int64_t start_at = StoreProbe::real_now();
        store_.reset();
        CPPUNIT_ASSERT(StoreProbe::real_now() - start_at < 1000);
    }

    // The receiver speaks no TLS, so the handshake fails and nothing of the event is sent.
    // E-34
    void certificates_are_checked_E_34() {
        start();
        std::string url = handler_->url();
        url.replace(0, 4, "https");
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(),
                                              std::vector<durable::HandlerSettings>{{"hook", url, "secret", 500}});
        subscribe(R"(,"delivery":"single")");
        publish("1");
        for (int i = 0; i < 100 && listed("suspendedReason") == "null"; ++i) {
            store_->advance(20000);
            let_pass(100);
        }
        CPPUNIT_ASSERT_EQUAL(std::string("failures"), listed("suspendedReason"));
        CPPUNIT_ASSERT(handler_->requests().empty());
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EventsDeliveryTest);

}  // namespace
