// SPDX-License-Identifier: BSD-2-Clause
// What every way to publish shares.
#pragma once

#include "core/channel.h"
#include "core/errors.h"
#include "ngx_module/nginx.h"

namespace durable {

// Unix time in milliseconds.
inline std::uint64_t unix_ms() noexcept {
    const ngx_time_t* now = ngx_timeofday();
    return static_cast<std::uint64_t>(now->sec) * 1000 + now->msec;
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

}  // namespace durable
