// SPDX-License-Identifier: BSD-2-Clause
// Plain values that the parts of the event store pass to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.h"
#include "core/subject.h"

namespace durable {

// Who is calling (E-4). No app: every row of the account.
struct Caller {
    std::string account;
    std::optional<std::string> app;
};

// A `durable_handler`.
struct HandlerSettings {
    std::string name;
    std::string url;
    std::string secret;  // the key's own bytes; empty: not signed
    std::int64_t timeout_ms = 30000;
};

struct Quotas {
    std::int64_t account_rows = 500;
    std::int64_t app_rows = 100;
};

// A refusal, or ErrorCode::ok.
struct Refusal {
    ErrorCode code = ErrorCode::ok;
    std::string detail;

    bool is_refused() const noexcept { return code != ErrorCode::ok; }
};

// A valid subscribe call (E-7 to E-11).
struct NewSubscription {
    Subject subject;
    bool is_single = false;
    std::vector<std::string> targets;
    std::optional<std::string> handler;
    std::optional<std::string> context;      // compact JSON text
    std::optional<std::int64_t> expires_at;  // unix seconds
};

// What a subscription object shows (E-19).
struct SubscriptionRow {
    std::int64_t id = 0;
    std::string sub_id;
    std::optional<std::string> app;
    std::string subject;
    bool is_single = false;
    std::string targets;  // comma-separated, in order
    std::optional<std::string> handler;
    std::optional<std::string> context;
    std::int64_t created_at = 0;
    std::optional<std::int64_t> expires_at;
    std::optional<std::int64_t> suspended_at;
    std::optional<std::string> suspended_reason;
};

// An event as the log keeps it. A gap has `only_sub`, `reason` and the subscription's subject as its name.
struct LoggedEvent {
    std::int64_t seq = 0;
    std::string uuid;
    EventSubject subject;
    std::optional<std::string> account;    // whom it reaches; none: everyone
    std::optional<std::string> publisher;  // the account that published it, for `self`
    std::optional<std::string> data;       // compact JSON text
    std::int64_t ts = 0;                   // ms
    std::optional<std::int64_t> only_sub;
    std::string reason;

    bool is_gap() const noexcept { return only_sub.has_value(); }
};

}  // namespace durable
