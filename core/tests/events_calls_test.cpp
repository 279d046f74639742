// SPDX-License-Identifier: BSD-2-Clause
// The calls of the events API through a store thread: subscribe, list, unsubscribe, publish, fetch, suspend, resume.
#include <cppunit/extensions/HelperMacros.h>

#include <set>

#include "core/digest.h"
#include "core/event_documents.h"
#include "core/tests/store_probe.h"

namespace {

using durable_test::ScratchFolder;
using durable_test::StoreProbe;

const std::vector<durable::HandlerSettings> kHandlers = {{"hook", "http://127.0.0.1:1/hook", "secret", 1000}};

class EventsCallsTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(EventsCallsTest);
    CPPUNIT_TEST(a_subscription_object_has_every_member_E_12_E_19);
    CPPUNIT_TEST(bodies_are_json_objects_E_5);
    CPPUNIT_TEST(delivery_is_broadcast_or_single_E_7);
    CPPUNIT_TEST(targets_are_checked_and_defaulted_E_8);
    CPPUNIT_TEST(handlers_must_be_configured_E_9);
    CPPUNIT_TEST(contexts_are_limited_and_never_shown_E_10_E_19);
    CPPUNIT_TEST(expiries_lie_in_the_future_E_11_E_23);
    CPPUNIT_TEST(quotas_count_unexpired_rows_E_13);
    CPPUNIT_TEST(quotas_hold_under_concurrent_inserts_E_13);
    CPPUNIT_TEST(an_app_sees_its_own_rows_only_E_4_E_25);
    CPPUNIT_TEST(pages_neither_repeat_nor_skip_E_20_E_22);
    CPPUNIT_TEST(limits_and_cursors_are_checked_E_21_E_22);
    CPPUNIT_TEST(publishing_answers_position_and_matches_E_18_E_26);
    CPPUNIT_TEST(published_events_are_limited_E_26);
    CPPUNIT_TEST(emitted_events_belong_to_their_account_E_27_E_28);
    CPPUNIT_TEST(fetch_pages_through_what_was_missed_E_29);
    CPPUNIT_TEST(fetch_finds_rare_events_in_a_long_log_E_29);
    CPPUNIT_TEST(retention_trims_by_count_and_age_E_29);
    CPPUNIT_TEST(operator_calls_suspend_and_resume_E_37_E_38_E_39);
    CPPUNIT_TEST(rows_are_swept_E_38);
    CPPUNIT_TEST_SUITE_END();

    ScratchFolder folder_;
    std::unique_ptr<StoreProbe> store_;

    void expect(int status, const std::string& code, const durable::Completion& completion) {
        CPPUNIT_ASSERT_EQUAL_MESSAGE(completion.body, status, completion.status);
        if (status != 200) CPPUNIT_ASSERT_EQUAL(code, StoreProbe::member(completion.body, "code"));
    }
    void refused(int status, const std::string& code, const std::string& body) {
        expect(status, code, store_->subscribe(body));
    }
    std::string list(const std::string& query = "", const std::string& account = "alice",
                     std::optional<std::string> app = std::nullopt) {
        return store_->call(durable::ListJob{{account, app}, query}).body;
    }
    static std::size_t count(const std::string& text, const std::string& part) {
        std::size_t found = 0;
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
        return found;
    }
    std::string publish(const std::string& body) {
        const auto completion = store_->publish(body);
        CPPUNIT_ASSERT_EQUAL_MESSAGE(completion.body, 200, completion.status);
        return completion.body;
    }
    std::string changed(const std::string& body, bool suspends) {
        const auto done = suspends ? store_->call(durable::SuspendJob{body}) : store_->call(durable::ResumeJob{body});
        return done.status == 200 ? StoreProbe::member(done.body, "changed") : done.body;
    }

public:
    void setUp() override { store_ = std::make_unique<StoreProbe>(folder_.store(), kHandlers); }
    void tearDown() override { store_.reset(); }

    // E-12, E-19
    void a_subscription_object_has_every_member_E_12_E_19() {
        const auto made = store_->subscribe(R"({"subject":"fs:/a/*.txt:write","context":{"b":1,"a":"é"},"extra":1})",
                                            "alice", "app1");
        expect(200, "", made);
        const std::string sub_id = StoreProbe::member(made.body, "subId");
        CPPUNIT_ASSERT_EQUAL(std::string("app1#"), sub_id.substr(0, 5));
        CPPUNIT_ASSERT_EQUAL(std::size_t{41}, sub_id.size());
        const std::string created = StoreProbe::member(made.body, "createdAt");
        CPPUNIT_ASSERT_EQUAL(
            "{\"subId\":\"" + sub_id +
                R"(","subject":"fs:/a/*.txt:write","anchor":{"uid":"/a","path":"/a"},"match":"*.txt",)"
                R"("op":"write","targets":["socket"],"delivery":"broadcast","handlerName":null,"appUid":"app1",)"
                R"("contextKeys":["a","b"],"contextHash":"763b30b943411fdf63233e3efb0d4068c1e60276f92f43a57909712f567befba",)"
                "\"createdAt\":" +
                created + R"(,"expiresAt":null,"suspendedAt":null,"suspendedReason":null})",
            made.body);
        const auto plain = store_->subscribe(R"({"subject":"topic:a"})");
        CPPUNIT_ASSERT_EQUAL(std::string("user#"), StoreProbe::member(plain.body, "subId").substr(0, 5));
        CPPUNIT_ASSERT(plain.body.find(R"("anchor":null,"match":null,"op":null)") != std::string::npos);
        CPPUNIT_ASSERT(plain.body.find(R"("contextKeys":null,"contextHash":null)") != std::string::npos);
        store_->subscribe(R"({"subject":"topic:a"})");
        CPPUNIT_ASSERT_EQUAL(std::size_t{2}, count(list(), "\"topic:a\""));
        CPPUNIT_ASSERT(store_->subscribe(R"({"subject":"topic:a","context":[1]})").body.find("\"contextKeys\":[]") !=
                       std::string::npos);
    }

    // E-5
    void bodies_are_json_objects_E_5() {
        for (const char* body : {"", " \n", "[]", "1", "null", "\"a\""}) refused(400, "bad_request", body);
        for (const char* body : {"{", "{\"subject\":\"topic:\xff\"}", "{}x"}) refused(400, "client_bad_json", body);
        refused(400, "invalid_subject", "{}");
        refused(400, "invalid_subject", R"({"subject":1})");
        refused(400, "invalid_subject", R"({"subject":"topic:\ud800"})");
        refused(400, "invalid_subject", R"({"subject":"topic:a\u0000"})");
    }

    // E-7
    void delivery_is_broadcast_or_single_E_7() {
        refused(400, "bad_request", R"({"subject":"topic:a","delivery":"all"})");
        refused(400, "bad_request", R"({"subject":"topic:a","delivery":1})");
        refused(400, "events_handler_required", R"({"subject":"topic:a","delivery":"single"})");
        expect(200, "", store_->subscribe(R"({"subject":"topic:a","delivery":"single","handlerName":"hook"})"));
    }

    // E-8
    void targets_are_checked_and_defaulted_E_8() {
        for (const char* targets : {"[]", "\"socket\"", "[\"worker\"]", "[\"mail\"]", "[1]", "{}"}) {
            refused(400, "invalid_targets", std::string(R"({"subject":"topic:a","targets":)") + targets + "}");
        }
        refused(400, "invalid_targets",
                R"({"subject":"topic:a","delivery":"single","handlerName":"hook","targets":["push"]})");
        CPPUNIT_ASSERT(store_->subscribe(R"({"subject":"topic:a","targets":["push","socket","push"]})")
                           .body.find(R"(["push","socket"])") != std::string::npos);
        CPPUNIT_ASSERT(
            store_->subscribe(R"({"subject":"topic:a","handlerName":"hook"})").body.find(R"(["socket","worker"])") !=
            std::string::npos);
    }

    // E-9
    void handlers_must_be_configured_E_9() {
        refused(404, "events_handler_not_found", R"({"subject":"topic:a","handlerName":"none"})");
        refused(409, "events_handler_hash_mismatch",
                R"({"subject":"topic:a","handlerName":"hook","handlerHash":"00"})");
        const std::string hash = durable::sha256_hex(kHandlers[0].url);
        expect(200, "",
               store_->subscribe(R"({"subject":"topic:a","handlerName":"hook","handlerHash":")" + hash + "\"}"));
    }

    // E-10, E-19
    void contexts_are_limited_and_never_shown_E_10_E_19() {
        const std::string fits = '"' + std::string(4094, 'x') + '"';
        expect(200, "", store_->subscribe(R"({"subject":"topic:a","context":)" + fits + "}"));
        refused(413, "events_context_too_large", R"({"subject":"topic:a","context":"x)" + fits.substr(1) + "}");
        expect(200, "", store_->subscribe(R"({"subject":"topic:a","context":null})"));
        CPPUNIT_ASSERT(list().find("xxx") == std::string::npos);
        CPPUNIT_ASSERT(list().find(durable::sha256_hex(fits)) != std::string::npos);
        durable::SubscriptionRow broken;
        broken.context = "{broken";
        std::string text;
        durable::append_subscription(text, broken);
        CPPUNIT_ASSERT(text.find("\"contextKeys\":null,\"contextHash\":\"" + durable::sha256_hex("{broken")) !=
                       std::string::npos);
    }

    // E-11, E-23
    void expiries_lie_in_the_future_E_11_E_23() {
        const std::int64_t now = StoreProbe::real_now() / 1000;
        for (const std::string& bad :
             {std::to_string(now - 1), std::string("\"1999-01-01\""), std::string("true"), std::string("\"soon\""),
              std::string("1e400"), std::string("[]"), std::string("\"\"")}) {
            refused(400, "invalid_expires_at", R"({"subject":"topic:a","expiresAt":)" + bad + "}");
        }
        const auto made = store_->subscribe(R"({"subject":"topic:a","expiresAt":)" + std::to_string(now + 100) + ".9}");
        CPPUNIT_ASSERT_EQUAL(std::to_string(now + 100), StoreProbe::member(made.body, "expiresAt"));
        const auto dated = store_->subscribe(R"({"subject":"topic:a","expiresAt":"2999-01-01"})");
        CPPUNIT_ASSERT_EQUAL(std::string("32472144000"), StoreProbe::member(dated.body, "expiresAt"));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), StoreProbe::member(list("includeTotal=true"), "total"));
        store_->advance(101000);
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(list("includeTotal=true"), "total"));
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(list(), "subId"));
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(publish(R"({"subject":"topic:a"})"), "matched"));
    }

    // E-13
    void quotas_count_unexpired_rows_E_13() {
        const durable::Quotas quotas{4, 2};
        const std::string soon = std::to_string(StoreProbe::real_now() / 1000 + 100);
        const std::string body = R"({"subject":"topic:a","expiresAt":)" + soon + "}";
        for (int i = 0; i < 2; ++i) expect(200, "", store_->subscribe(body, "alice", "app1", quotas));
        expect(429, "events_subscription_limit", store_->subscribe(body, "alice", "app1", quotas));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), changed(R"({"account":"alice","reason":"no_credit"})", true));
        expect(429, "events_subscription_limit", store_->subscribe(body, "alice", "app1", quotas));
        expect(200, "", store_->subscribe(body, "bob", "app1", quotas));
        expect(200, "", store_->subscribe(body, "alice", "app2", quotas));
        expect(200, "", store_->subscribe(body, "alice", std::nullopt, quotas));
        expect(429, "events_subscription_limit", store_->subscribe(body, "alice", std::nullopt, quotas));
        store_->advance(101000);
        expect(200, "", store_->subscribe(R"({"subject":"topic:a"})", "alice", "app1", quotas));
    }

    // E-13
    void quotas_hold_under_concurrent_inserts_E_13() {
        StoreProbe other(folder_.store(), kHandlers);
        std::vector<std::uint64_t> here;
        std::vector<std::uint64_t> there;
        const durable::SubscribeJob job{{"alice", std::nullopt}, {20, 100}, R"({"subject":"topic:a"})"};
        for (int i = 0; i < 30; ++i) {
            here.push_back(store_->submit(job));
            there.push_back(other.submit(job));
        }
        int accepted = 0;
        for (const std::uint64_t id : here) accepted += store_->answer_of(id).status == 200 ? 1 : 0;
        for (const std::uint64_t id : there) accepted += other.answer_of(id).status == 200 ? 1 : 0;
        CPPUNIT_ASSERT_EQUAL(20, accepted);
        CPPUNIT_ASSERT_EQUAL(std::string("20"), StoreProbe::member(list("includeTotal=true&limit=1"), "total"));
    }

    // E-4, E-25
    void an_app_sees_its_own_rows_only_E_4_E_25() {
        const auto first = store_->subscribe(R"({"subject":"topic:a"})", "alice", "app1");
        store_->subscribe(R"({"subject":"topic:a"})", "alice", "app2");
        store_->subscribe(R"({"subject":"topic:a"})", "alice");
        store_->subscribe(R"({"subject":"topic:a"})", "bob");
        CPPUNIT_ASSERT_EQUAL(std::string("3"), StoreProbe::member(list("includeTotal=true"), "total"));
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(list("includeTotal=true", "alice", "app1"), "total"));
        const std::string body = R"({"subId":")" + StoreProbe::member(first.body, "subId") + "\"}";
        const auto remove = [&](const std::string& account, std::optional<std::string> app, const std::string& text) {
            return store_->call(durable::UnsubscribeJob{{account, app}, text});
        };
        expect(404, "subscription_does_not_exist", remove("bob", std::nullopt, body));
        expect(404, "subscription_does_not_exist", remove("alice", "app2", body));
        expect(404, "subscription_does_not_exist", remove("alice", std::nullopt, "{}"));
        expect(404, "subscription_does_not_exist", remove("alice", std::nullopt, R"({"subId":7})"));
        expect(400, "bad_request", remove("alice", std::nullopt, ""));
        const auto removed = remove("alice", std::nullopt, body);
        CPPUNIT_ASSERT_EQUAL(std::string("{}"), removed.body);
        expect(404, "subscription_does_not_exist", remove("alice", std::nullopt, body));
    }

    // E-20, E-22
    void pages_neither_repeat_nor_skip_E_20_E_22() {
        std::vector<std::string> ids;
        for (int i = 0; i < 10; ++i) {
            ids.push_back(StoreProbe::member(store_->subscribe(R"({"subject":"topic:a"})").body, "subId"));
        }
        std::string query = "limit=3";
        std::vector<std::string> seen;
        for (int page = 0; page < 10; ++page) {
            const std::string body = list(query);
            for (std::size_t at = body.find("\"subId\":\""); at != std::string::npos;
                 at = body.find("\"subId\":\"", at + 1)) {
                seen.push_back(body.substr(at + 9, body.find('"', at + 9) - at - 9));
            }
            const std::string cursor = StoreProbe::member(body.substr(body.rfind(']')), "cursor");
            if (cursor == "missing") break;
            // One row that was listed goes, one that comes later is added.
            store_->call(durable::UnsubscribeJob{{"alice", std::nullopt}, R"({"subId":")" + seen.back() + "\"}"});
            if (page == 0)
                ids.push_back(StoreProbe::member(store_->subscribe(R"({"subject":"topic:b"})").body, "subId"));
            query = "limit=3&cursor=" + cursor;
        }
        CPPUNIT_ASSERT(ids == seen);
        CPPUNIT_ASSERT(list().find("\"total\"") == std::string::npos);
        CPPUNIT_ASSERT(list("includeTotal=1").find("\"total\"") == std::string::npos);
    }

    // E-21, E-22
    void limits_and_cursors_are_checked_E_21_E_22() {
        for (const char* bad : {"limit=0", "limit=-1", "limit=", "limit=ten", "limit=1.5", "limit=00", "cursor=%25",
                                "cursor=a", "cursor=bm90anNvbg=="}) {
            const auto refused_page = store_->call(durable::ListJob{{"alice", std::nullopt}, bad});
            CPPUNIT_ASSERT_EQUAL_MESSAGE(bad, std::string("bad_request"),
                                         StoreProbe::member(refused_page.body, "code"));
        }
        for (int i = 0; i < 51; ++i) store_->subscribe(R"({"subject":"topic:a"})");
        CPPUNIT_ASSERT_EQUAL(std::size_t{50}, count(list(), "subId"));
        CPPUNIT_ASSERT_EQUAL(std::size_t{51}, count(list("limit=99999999999999999999"), "subId"));
        for (const std::string& cursor :
             {durable::base64_encode("{}"), durable::base64_encode("{\"id\":\"x\"}"), durable::base64_encode("[1]"),
              durable::base64_encode("{\"id\":-1}"), std::string()}) {
            CPPUNIT_ASSERT_EQUAL(std::size_t{50}, count(list("cursor=" + cursor), "subId"));
        }
        const std::string cursor = durable::base64_encode("{\"id\":50}");
        std::string escaped = cursor;
        if (escaped.back() == '=') escaped.replace(escaped.size() - 1, 1, "%3D");
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(list("cursor=" + escaped), "subId"));
    }

    // E-18, E-26
    void publishing_answers_position_and_matches_E_18_E_26() {
        store_->subscribe(R"({"subject":"topic:a:b"})");
        store_->subscribe(R"({"subject":"topic:a:*"})");
        store_->subscribe(R"({"subject":"topic:*"})", "bob");
        store_->subscribe(R"({"subject":"fs:/d/**/*.txt"})");
        store_->subscribe(R"({"subject":"fs:/d:move"})");
        const std::string first = publish(R"({"subject":"topic:a:b","data":{"n":1}})");
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(first, "seq"));
        CPPUNIT_ASSERT_EQUAL(std::string("3"), StoreProbe::member(first, "matched"));
        CPPUNIT_ASSERT_EQUAL(std::size_t{36}, StoreProbe::member(first, "id").size());
        const std::string second = publish(R"({"subject":"topic:a:b","account":"bob"})");
        CPPUNIT_ASSERT_EQUAL(std::string("2"), StoreProbe::member(second, "seq"));
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(second, "matched"));
        CPPUNIT_ASSERT_EQUAL(std::string("1"),
                             StoreProbe::member(publish(R"({"subject":"fs:/d/x/y.txt:write"})"), "matched"));
        CPPUNIT_ASSERT_EQUAL(std::string("2"),
                             StoreProbe::member(publish(R"({"subject":"fs:/e/y:move","from":"/d/y.txt"})"), "matched"));
        CPPUNIT_ASSERT_EQUAL(std::string("0"), StoreProbe::member(publish(R"({"subject":"fs:/d/y:add"})"), "matched"));
        expect(400, "invalid_subject_op", store_->publish(R"({"subject":"fs:/d/y"})"));
        expect(400, "invalid_subject", store_->publish(R"({"subject":"fs:/e:move","from":"d"})"));
        expect(400, "bad_request", store_->publish(R"({"subject":"topic:a","account":""})"));
        expect(400, "client_bad_json", store_->publish("{"));
    }

    // E-26
    void published_events_are_limited_E_26() {
        const std::string start = R"({"subject":"topic:a","data":")";
        expect(200, "", store_->publish(start + std::string(65536 - start.size() - 2, 'x') + "\"}"));
        CPPUNIT_ASSERT_EQUAL(413, store_->publish(start + std::string(65537 - start.size() - 2, 'x') + "\"}").status);
    }

    // E-27, E-28
    void emitted_events_belong_to_their_account_E_27_E_28() {
        const auto emit = [&](const std::string& subject, const std::string& op, std::optional<std::string> account) {
            return store_->call(durable::EmitJob{subject, op, "/old", std::move(account)});
        };
        expect(200, "", emit("fs:/new", "move", "alice"));
        expect(200, "", emit("fs:/dir/", "add", std::nullopt));
        expect(400, "invalid_subject_op", emit("fs:/x", "mkcol", "alice"));
        const auto fetched = store_->call(durable::FetchJob{{"alice", std::nullopt}, "subject=fs:/"});
        CPPUNIT_ASSERT(
            fetched.body.find(
                R"("subject":"fs:/new:move","op":"move","path":"/new","from":"/old","data":null,"self":true)") !=
            std::string::npos);
        CPPUNIT_ASSERT(
            fetched.body.find(R"("subject":"fs:/dir:add","op":"add","path":"/dir","data":null,"self":false)") !=
            std::string::npos);
        CPPUNIT_ASSERT_EQUAL(
            std::size_t{1},
            count(store_->call(durable::FetchJob{{"bob", std::nullopt}, "subject=fs:/"}).body, "\"id\""));
    }

    // E-29
    void fetch_pages_through_what_was_missed_E_29() {
        for (int i = 0; i < 7; ++i)
            publish(R"({"subject":"topic:a:)" + std::to_string(i) + R"(","data": [ 1.0, "x y" ]})");
        publish(R"({"subject":"topic:a:other","account":"bob"})");
        const auto fetch = [&](const std::string& query) {
            return store_->call(durable::FetchJob{{"alice", std::nullopt}, query});
        };
        const std::string first = fetch("subject=topic:a:*&limit=3").body;
        CPPUNIT_ASSERT_EQUAL(std::size_t{3}, count(first, "\"topic\""));
        CPPUNIT_ASSERT(first.find(R"("data":[1.0,"x y"])") != std::string::npos);
        const std::string cursor = StoreProbe::member(first.substr(first.rfind(']')), "cursor");
        const std::string second = fetch("subject=topic%3Aa%3A*&after=" + cursor).body;
        CPPUNIT_ASSERT_EQUAL(std::size_t{4}, count(second, "\"topic\""));
        CPPUNIT_ASSERT(second.find("cursor") == std::string::npos);
        CPPUNIT_ASSERT_EQUAL(std::size_t{1}, count(fetch("subject=topic:a:5").body, "\"topic\""));
        expect(400, "invalid_subject", fetch("limit=3"));
        expect(400, "bad_request", fetch("subject=topic:a&limit=0"));
        expect(400, "bad_request", fetch("subject=topic:a&after=!"));
    }

    // E-29
    void fetch_finds_rare_events_in_a_long_log_E_29() {
        std::vector<std::uint64_t> ids;
        for (int i = 0; i < 4500; ++i) {
            const bool is_rare = i % 1500 == 1400;
            ids.push_back(store_->submit(durable::PublishJob{
                is_rare ? R"({"subject":"fs:/rare/x:move","from":"/left/y"})" : R"({"subject":"topic:noise"})"}));
        }
        for (const std::uint64_t id : ids) CPPUNIT_ASSERT_EQUAL(200, store_->answer_of(id).status);
        publish(R"({"subject":"topic:last:one"})");
        for (const char* subject : {"fs:/rare", "fs:/left", "fs:/", "fs:/rare/*", "fs:/left/y"}) {
            const auto fetched =
                store_->call(durable::FetchJob{{"alice", std::nullopt}, std::string("subject=") + subject});
            CPPUNIT_ASSERT_EQUAL_MESSAGE(subject, std::size_t{3}, count(fetched.body, "\"path\""));
        }
        for (const char* subject : {"topic:last:one", "topic:last*"}) {
            const auto fetched =
                store_->call(durable::FetchJob{{"alice", std::nullopt}, std::string("subject=") + subject});
            CPPUNIT_ASSERT_EQUAL_MESSAGE(subject, std::size_t{1}, count(fetched.body, "\"topic\""));
        }
    }

    // E-29
    void retention_trims_by_count_and_age_E_29() {
        store_.reset();
        store_ = std::make_unique<StoreProbe>(folder_.store(), kHandlers, durable::Retention{60000, 5});
        for (int i = 0; i < 20; ++i) publish(R"({"subject":"topic:a"})");
        const auto kept = [&] {
            return count(store_->call(durable::FetchJob{{"a", std::nullopt}, "subject=topic:a"}).body, "\"topic\"");
        };
        for (int i = 0; i < 50 && kept() > 5; ++i) store_->collect(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{5}, kept());
        store_->advance(61000);
        for (int i = 0; i < 50 && kept() > 0; ++i) store_->collect(100);
        CPPUNIT_ASSERT_EQUAL(std::size_t{0}, kept());
        CPPUNIT_ASSERT_EQUAL(std::string("21"), StoreProbe::member(publish(R"({"subject":"topic:a"})"), "seq"));
    }

    // E-37, E-38, E-39
    void operator_calls_suspend_and_resume_E_37_E_38_E_39() {
        store_->subscribe(R"({"subject":"topic:a"})", "alice", "app1");
        store_->subscribe(R"({"subject":"topic:b"})", "alice");
        store_->subscribe(R"({"subject":"topic:a"})", "bob");
        CPPUNIT_ASSERT_EQUAL(std::string("1"),
                             changed(R"({"account":"alice","app":"app1","reason":"no_credit"})", true));
        CPPUNIT_ASSERT_EQUAL(std::string("1"),
                             changed(R"({"account":"alice","subjectPrefix":"topic:","reason":"failures"})", true));
        CPPUNIT_ASSERT_EQUAL(std::string("0"), changed(R"({"account":"alice","reason":"failures"})", true));
        CPPUNIT_ASSERT(list().find(R"("suspendedReason":"no_credit")") != std::string::npos);
        CPPUNIT_ASSERT_EQUAL(std::string("1"), StoreProbe::member(publish(R"({"subject":"topic:a"})"), "matched"));
        CPPUNIT_ASSERT_EQUAL(std::string("1"), changed(R"({"account":"alice","reason":"no_credit"})", false));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), StoreProbe::member(publish(R"({"subject":"topic:a"})"), "matched"));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), changed(R"({"account":"alice","reason":"permission_revoked"})", true));
        CPPUNIT_ASSERT_EQUAL(std::string("0"), changed(R"({"account":"alice","reason":"permission_revoked"})", true));
        CPPUNIT_ASSERT_EQUAL(std::string("0"), changed(R"({"account":"alice"})", false));
        CPPUNIT_ASSERT_EQUAL(std::string("2"), StoreProbe::member(list("includeTotal=true"), "total"));
        for (const char* bad : {R"({"account":"alice"})", R"({"reason":"failures"})",
                                R"({"account":"alice","reason":"bored"})", R"({"account":"alice","reason":1})", "[]"}) {
            expect(400, "bad_request", store_->call(durable::SuspendJob{bad}));
        }
    }

    // E-38
    void rows_are_swept_E_38() {
        store_->subscribe(R"({"subject":"topic:a"})", "alice");
        changed(R"({"account":"alice","reason":"no_credit"})", true);
        const auto total = [&] { return StoreProbe::member(list("includeTotal=true"), "total"); };
        store_->advance(29LL * 86400000);
        for (int i = 0; i < 15; ++i) store_->collect(100);
        CPPUNIT_ASSERT_EQUAL(std::string("1"), total());
        store_->advance(86401000);
        for (int i = 0; i < 50 && total() != "0"; ++i) store_->collect(100);
        CPPUNIT_ASSERT_EQUAL(std::string("0"), total());
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(EventsCallsTest);

}  // namespace
