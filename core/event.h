// SPDX-License-Identifier: BSD-2-Clause
// Running events and the subscriptions that they own (spec C-11 to C-14, C-18 to C-24).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/channel.h"
#include "core/zone.h"

namespace durable {

// nullptr when no such event runs or it has no record yet.
[[nodiscard]] EventRecord* find_event(const ZoneLock& lock, const EventToken& token) noexcept;

// How an event's sections run, from the location that bound it.
struct SectionRules {
    std::string_view handler = {};  // a URI; empty: none is configured
    std::uint32_t timeout_ms = 25000;
    std::uint32_t queue = 1000;
};

// Makes the event's record; this worker owns it. nullptr when the zone is full.
[[nodiscard]] EventRecord* bind_event(ZoneLock& lock, const EventToken& token, EventKind kind,
                                      std::string_view object_key, LineEntryRecord* section,
                                      const SectionRules& rules = {}) noexcept;

// Cancels its subscriptions, whoever waits on one is woken, withdraws its waiting sections, and
// frees it (C-14).
void end_event(ZoneLock& lock, EventRecord& event) noexcept;

// ---- subscriptions ---------------------------------------------------------------------------

struct SubscribeResult {
    ChannelOutcome outcome = ChannelOutcome::ok;
    std::uint64_t handle = 0;
};
[[nodiscard]] SubscribeResult subscribe(ZoneLock& lock, EventRecord& event, std::string_view channel_name) noexcept;

// nullptr for a handle that is not this event's (C-12).
[[nodiscard]] SubscriptionRecord* find_subscription(const ZoneLock& lock, const EventRecord& event,
                                                    std::uint64_t handle) noexcept;

// Idempotent; one that is already over stays as it is (C-13, C-21).
void cancel_subscription(ZoneLock& lock, SubscriptionRecord& subscription) noexcept;

// Cancels it, whoever waits on it is woken, and frees it.
void free_subscription(ZoneLock& lock, SubscriptionRecord& subscription) noexcept;

enum class TakeOutcome : std::uint8_t { nothing_yet, message, closed, backlog, cancelled };

// Takes the next message and puts its text into `text`, or for `closed` the reason.
[[nodiscard]] TakeOutcome take_message(ZoneLock& lock, SubscriptionRecord& subscription, std::string& text);

}  // namespace durable
