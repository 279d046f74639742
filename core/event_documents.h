// SPDX-License-Identifier: BSD-2-Clause
// The JSON of the events API: request bodies and query arguments in, subscription objects, events and pages out.
// Pure functions; what they refuse comes with the code of the specification.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/store_types.h"

namespace durable {

inline constexpr std::size_t kMaxContextBytes = 4096;
inline constexpr std::size_t kMaxPublishBytes = 65536;
inline constexpr std::int64_t kDefaultPageLimit = 50;
inline constexpr std::int64_t kMaxPageLimit = 200;

// The value of a query argument, percent-decoded and with `+` as a space; nullopt when it is not there.
[[nodiscard]] std::optional<std::string> query_argument(std::string_view query, std::string_view name);

// `limit`, `cursor`, `after`, `includeTotal` (E-20 to E-22, E-29).
struct PageRequest {
    std::int64_t limit = kDefaultPageLimit;
    std::int64_t after = 0;  // rows with a greater key
    bool wants_total = false;
};
[[nodiscard]] Refusal parse_page_request(std::string_view query, std::string_view cursor_name, PageRequest& page);
[[nodiscard]] std::string write_cursor(std::int64_t id);

// POST subscribe. `now_s` is unix seconds.
[[nodiscard]] Refusal parse_subscribe(std::string_view body, const std::vector<HandlerSettings>& handlers,
                                      std::int64_t now_s, NewSubscription& wanted);

// POST unsubscribe; an empty id stands for a missing one.
[[nodiscard]] Refusal parse_unsubscribe(std::string_view body, std::string& sub_id);

// POST ack.
[[nodiscard]] Refusal parse_ack(std::string_view body, std::string& sub_id, std::string& event_id);

// POST events below durable_api. `seq`, `uuid` and `ts` are left for the log to set.
[[nodiscard]] Refusal parse_publish(std::string_view body, LoggedEvent& event);

// POST events/suspend and events/resume (E-37).
struct SuspensionRequest {
    std::string account;
    std::optional<std::string> app;
    std::string subject_prefix;
    std::string reason;  // empty: any, for resume only
};
[[nodiscard]] Refusal parse_suspension(std::string_view body, bool needs_reason, SuspensionRequest& request);

// E-19
void append_subscription(std::string& out, const SubscriptionRow& row);

// The event as the holder of a subscription gets it (E-28). Empty holder: `self` is false.
void append_event(std::string& out, const LoggedEvent& event, std::string_view holder);

// `{"subId","event"[,"ackRequired":true,"ackId"]}` as one server-sent event of type `delivery` (E-30).
void append_delivery_frame(std::string& out, std::string_view sub_id, const LoggedEvent& event, std::string_view holder,
                           bool needs_ack);

// `event: gap`; `seq` is where the stream goes on.
void append_stream_gap_frame(std::string& out, std::int64_t seq, std::string_view reason);

// `{"handler","event","context"}` for a handler (E-34).
[[nodiscard]] std::string handler_body(std::string_view handler, const LoggedEvent& event, std::string_view holder,
                                       const std::optional<std::string>& context);

// The SHA-256 of the handler's configured URL (E-9).
[[nodiscard]] std::string handler_hash(const HandlerSettings& handler);

// E-14 to E-17
[[nodiscard]] Refusal refusal_of(SubjectOutcome outcome, std::string_view subject);

[[nodiscard]] std::string error_body(const Refusal& refusal);

}  // namespace durable
