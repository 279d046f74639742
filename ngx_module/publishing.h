// SPDX-License-Identifier: BSD-2-Clause
// What every way to publish shares.
#pragma once

#include "core/channel.h"
#include "core/errors.h"
#include "core/history.h"
#include "ngx_module/worker.h"

namespace durable {

// Unix time in milliseconds.
inline std::uint64_t unix_ms() noexcept {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::uint64_t>(now->sec) * 1000 + now->msec;
}

// How long what is published through this location is kept (H-1).
inline HistoryRule history_rule(const LocationSettings& location, Worker& worker) {
    HistoryRule rule;
    if (location.history == nullptr) return rule;
    rule.messages = static_cast<std::uint32_t>(location.history->messages);
    rule.max_age_ms = location.history->max_age;
    while (rule.new_epoch == 0) worker.random_bytes(&rule.new_epoch, sizeof rule.new_epoch);
    return rule;
}

// The answer to a publish.
inline std::string publish_answer(const PublishResult& result) {
    std::string json = "{\"delivered\":" + std::to_string(result.delivered);
    if (result.number != 0) {
        json += ",\"id\":\"";
        append_message_id(json, {result.epoch, result.number});
        json += '"';
    }
    return json += '}';
}

inline ErrorCode error_of(ChannelOutcome outcome) noexcept {
    switch (outcome) {
    case ChannelOutcome::ok: return ErrorCode::ok;
    case ChannelOutcome::no_memory: return ErrorCode::no_memory;
    case ChannelOutcome::channel_limit: return ErrorCode::channel_limit;
    case ChannelOutcome::subscription_limit: return ErrorCode::subscription_limit;
    }
    return ErrorCode::no_memory;
}

// The configured limit that a refusal names, as its detail; empty where it names none.
inline std::string limit_detail(ErrorCode error, const ZoneLimits& limits) {
    if (error == ErrorCode::subscription_limit) return std::to_string(limits.subscriptions);
    if (error == ErrorCode::channel_limit) return std::to_string(limits.channels);
    return std::string();
}

}  // namespace durable
