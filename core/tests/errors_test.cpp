// SPDX-License-Identifier: BSD-2-Clause
#include "core/errors.h"

#include <cppunit/TestFixture.h>
#include <cppunit/extensions/HelperMacros.h>

#include <string>

#include "core/json_check.h"

namespace durable {

namespace {

const auto kLast = static_cast<unsigned>(ErrorCode::store_failed);

std::string body(ErrorCode error, std::string_view detail = {}) {
    std::string out;
    append_error_json(out, error, detail);
    return out;
}

}  // namespace

class ErrorsTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(ErrorsTest);
    CPPUNIT_TEST(every_refusal_has_a_status_a_code_and_a_message);
    CPPUNIT_TEST(every_body_is_json_with_and_without_a_detail);
    CPPUNIT_TEST(statuses_are_those_of_the_interface);
    CPPUNIT_TEST(refusals_that_share_a_code_share_its_name);
    CPPUNIT_TEST(fixed_messages_are_the_whole_message);
    CPPUNIT_TEST(headers_handles_and_event_kinds_may_be_followed_by_the_offending_name);
    CPPUNIT_TEST(the_subscription_limit_names_the_configured_number);
    CPPUNIT_TEST(a_failed_section_gives_its_reason);
    CPPUNIT_TEST(an_english_message_is_followed_by_the_offending_value);
    CPPUNIT_TEST(a_detail_cannot_break_out_of_the_json);
    CPPUNIT_TEST(a_detail_that_is_not_utf8_becomes_replacement_characters);
    CPPUNIT_TEST(a_long_detail_is_cut_between_two_characters);
    CPPUNIT_TEST(an_error_without_a_row_is_escaped_too);
    CPPUNIT_TEST_SUITE_END();

public:
    void every_refusal_has_a_status_a_code_and_a_message() {
        for (unsigned value = 1; value <= kLast; ++value) {
            const ErrorInfo& info = error_info(static_cast<ErrorCode>(value));
            CPPUNIT_ASSERT(info.status >= 400 && info.status <= 503);
            CPPUNIT_ASSERT(!info.code.empty());
            CPPUNIT_ASSERT(info.code.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos);
            CPPUNIT_ASSERT(!info.message.empty());
        }
    }

    void every_body_is_json_with_and_without_a_detail() {
        for (unsigned value = 1; value <= kLast; ++value) {
            CPPUNIT_ASSERT(is_valid_json(body(static_cast<ErrorCode>(value))));
            CPPUNIT_ASSERT(is_valid_json(body(static_cast<ErrorCode>(value), "\"\\\n\xFF\xC3")));
        }
    }

    void statuses_are_those_of_the_interface() {
        const auto status = [](ErrorCode error) { return error_info(error).status; };
        CPPUNIT_ASSERT_EQUAL(400, status(ErrorCode::invalid_channel));
        CPPUNIT_ASSERT_EQUAL(401, status(ErrorCode::unknown_event));
        CPPUNIT_ASSERT_EQUAL(401, status(ErrorCode::token_missing));
        CPPUNIT_ASSERT_EQUAL(403, status(ErrorCode::unknown_subscription));
        CPPUNIT_ASSERT_EQUAL(403, status(ErrorCode::unknown_stream));
        CPPUNIT_ASSERT_EQUAL(404, status(ErrorCode::not_found));
        CPPUNIT_ASSERT_EQUAL(405, status(ErrorCode::method_not_allowed));
        CPPUNIT_ASSERT_EQUAL(409, status(ErrorCode::response_committed));
        CPPUNIT_ASSERT_EQUAL(413, status(ErrorCode::result_too_large));  // X-4
        CPPUNIT_ASSERT_EQUAL(429, status(ErrorCode::channel_limit));
        CPPUNIT_ASSERT_EQUAL(500, status(ErrorCode::exclusive_failed));
        CPPUNIT_ASSERT_EQUAL(503, status(ErrorCode::exclusive_queue_full));
        CPPUNIT_ASSERT_EQUAL(503, status(ErrorCode::store_failed));                  // E-1
        CPPUNIT_ASSERT_EQUAL(503, status(ErrorCode::events_disabled));               // E-3
        CPPUNIT_ASSERT_EQUAL(404, status(ErrorCode::events_handler_not_found));      // E-9
        CPPUNIT_ASSERT_EQUAL(409, status(ErrorCode::events_handler_hash_mismatch));  // E-9
        CPPUNIT_ASSERT_EQUAL(413, status(ErrorCode::events_context_too_large));      // E-10
        CPPUNIT_ASSERT_EQUAL(429, status(ErrorCode::events_subscription_limit));     // E-13
        CPPUNIT_ASSERT_EQUAL(404, status(ErrorCode::subscription_does_not_exist));   // E-25
    }

    void refusals_that_share_a_code_share_its_name() {
        const auto code = [](ErrorCode error) { return std::string(error_info(error).code); };
        for (ErrorCode error : {ErrorCode::text_starts_with_ff, ErrorCode::text_not_utf8}) {
            CPPUNIT_ASSERT_EQUAL(std::string("invalid_text"), code(error));
        }
        for (ErrorCode error : {ErrorCode::invalid_header_name, ErrorCode::invalid_header_value,
                                ErrorCode::duplicate_header, ErrorCode::too_many_headers}) {
            CPPUNIT_ASSERT_EQUAL(std::string("invalid_header"), code(error));
        }
        for (ErrorCode error :
             {ErrorCode::section_not_completed, ErrorCode::section_timed_out, ErrorCode::no_handler}) {
            CPPUNIT_ASSERT_EQUAL(std::string("exclusive_failed"), code(error));
        }
        for (ErrorCode error : {ErrorCode::channel_text_too_large, ErrorCode::stream_text_too_large}) {
            CPPUNIT_ASSERT_EQUAL(std::string("text_too_large"), code(error));
        }
        for (ErrorCode error :
             {ErrorCode::invalid_event_type, ErrorCode::invalid_stream_start, ErrorCode::invalid_escape}) {
            CPPUNIT_ASSERT_EQUAL(std::string("invalid_request"), code(error));
        }
    }

    void fixed_messages_are_the_whole_message() {
        const std::pair<ErrorCode, std::string> fixed[] = {
            {ErrorCode::channel_text_too_large, "持久频道文字超过 65536 字节"},              // C-4
            {ErrorCode::text_starts_with_ff, "持久频道文字不得以字节 0xFF 起首"},            // C-4
            {ErrorCode::invalid_timeout, "持久频道等待超时须在 0 至 3600000 毫秒"},          // C-6
            {ErrorCode::stream_text_too_large, "事件流单次写入超过 64 KiB"},                 // S-10
            {ErrorCode::invalid_status, "事件流响应状态不在 200 至 299"},                    // S-2
            {ErrorCode::stream_already_started, "本次事件已经开始过事件流回应"},             // S-7
            {ErrorCode::invalid_operation, "持久独占失败：独占区操作名须为 1 至 128 字节"},  // X-12
            {ErrorCode::invalid_params, "持久独占失败：独占区参数不是有效 JSON"},            // X-12
            {ErrorCode::params_too_large, "持久独占失败：独占区参数超过 8 MiB"},             // X-12
            {ErrorCode::section_not_completed, "持久独占失败：豫言独占区未供结果"},          // X-10
            {ErrorCode::section_timed_out, "持久独占失败：豫言执行超过时限"},                // X-11
            {ErrorCode::invalid_result, "持久独占结果无效：独占区结果不是有效 JSON"},        // X-4
            {ErrorCode::already_completed, "持久独占结果无效：独占区结果只能设置一次"},      // X-4
            {ErrorCode::result_too_large, "持久独占结果无效：独占区结果超过 8 MiB"},         // X-4
            {ErrorCode::nested_exclusive, "独占区内不可再启动独占区"},                       // X-5
        };
        for (const auto& [error, message] : fixed) {
            const std::string expected =
                R"({"code":")" + std::string(error_info(error).code) + R"(","message":")" + message + R"("})";
            CPPUNIT_ASSERT_EQUAL(expected, body(error));
            CPPUNIT_ASSERT_EQUAL(expected, body(error, "a detail"));
        }
    }

    void headers_handles_and_event_kinds_may_be_followed_by_the_offending_name() {
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"code":"forbidden_header","message":"事件流标头不允许应用附加：Set-Cookie"})"),
            body(ErrorCode::forbidden_header, "Set-Cookie"));  // S-5
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"code":"invalid_header","message":"事件流标头重复：X"})"),
                             body(ErrorCode::duplicate_header, "X"));
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"code":"unknown_subscription","message":"持久频道订阅柄无效：不是本次事件创建的订阅：1"})"),
            body(ErrorCode::unknown_subscription, "1"));
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"code":"unknown_stream","message":"事件流柄无效"})"),
                             body(ErrorCode::unknown_stream));
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"code":"wrong_event_kind","message":"事件流只能回应 HTTP 事件：durable-block"})"),
            body(ErrorCode::wrong_event_kind, "durable-block"));
        // C-1
        CPPUNIT_ASSERT_EQUAL(std::size_t(0),
                             error_info(ErrorCode::invalid_channel).message.find("持久频道名须为 1 至 64 字节"));
    }

    void the_subscription_limit_names_the_configured_number() {  // C-3
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"code":"subscription_limit","message":"持久频道订阅数已达上限 256"})"),
                             body(ErrorCode::subscription_limit, "256"));
    }

    void a_failed_section_gives_its_reason() {  // X-10
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"code":"exclusive_failed","message":"持久独占失败：answered 500"})"),
                             body(ErrorCode::exclusive_failed, "answered 500"));
    }

    void an_english_message_is_followed_by_the_offending_value() {
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"code":"invalid_object","message":"the object's key must be 1 to 512 bytes: 513 bytes"})"),
            body(ErrorCode::invalid_object, "513 bytes"));
    }

    void a_detail_cannot_break_out_of_the_json() {
        CPPUNIT_ASSERT_EQUAL(
            std::string(R"({"code":"not_found","message":"there is no such call: \"}\\\n\u0000\u001f"})"),
            body(ErrorCode::not_found, std::string_view("\"}\\\n\0\x1f", 6)));
    }

    void a_detail_that_is_not_utf8_becomes_replacement_characters() {
        CPPUNIT_ASSERT_EQUAL(std::string(R"({"code":"not_found","message":"there is no such call: a��é"})"),
                             body(ErrorCode::not_found, "a\xFF\xC3\xC3\xA9"));
    }

    void a_long_detail_is_cut_between_two_characters() {
        std::string expected(kMaxErrorDetail - 1, 'x');
        expected = R"({"code":"not_found","message":"there is no such call: )" + expected + "…\"}";
        CPPUNIT_ASSERT_EQUAL(expected, body(ErrorCode::not_found, std::string(kMaxErrorDetail - 1, 'x') + "é"));
        const std::string whole = body(ErrorCode::not_found, std::string(kMaxErrorDetail - 2, 'x') + "é");
        CPPUNIT_ASSERT(whole.find("xé\"}") != std::string::npos);
    }

    void an_error_without_a_row_is_escaped_too() {
        std::string out = "before ";
        append_error_json(out, "http_error", "414 \"long\"");
        CPPUNIT_ASSERT_EQUAL(std::string(R"(before {"code":"http_error","message":"414 \"long\""})"), out);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(ErrorsTest);

}  // namespace durable
