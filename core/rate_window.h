// SPDX-License-Identifier: BSD-2-Clause
// A sliding log of accepted calls (E-24): at most Limit of them within any 60 s. The record may
// stand in the zone, where its owner's lock is held around every function here. Zeroed, it is empty.
// `now_ms` is any clock that all callers share; its slight disagreement between workers does no harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace durable {

inline constexpr std::uint64_t kRateWindowMs = 60000;

template <std::uint32_t Limit>
struct RateWindowRecord {
    static_assert(Limit > 0);
    std::uint64_t accepted_ms[Limit] = {};  // a ring
    std::uint32_t next = 0;                 // where the next call is written; when full, the oldest
    std::uint32_t count = 0;
};
static_assert(std::is_standard_layout_v<RateWindowRecord<1>> && std::is_trivially_copyable_v<RateWindowRecord<1>>);

// Whether this call is within the budget; only then is it counted.
template <std::uint32_t Limit>
[[nodiscard]] bool rate_window_accept(RateWindowRecord<Limit>& record, std::uint64_t now_ms) noexcept {
    if (record.count == Limit && now_ms < record.accepted_ms[record.next] + kRateWindowMs) return false;
    record.accepted_ms[record.next] = now_ms;
    record.next = (record.next + 1) % Limit;
    if (record.count < Limit) ++record.count;
    return true;
}

// Takes back the call accepted at `accepted_ms`, if it is still known: it was refused for its content after all.
template <std::uint32_t Limit>
void rate_window_withdraw(RateWindowRecord<Limit>& record, std::uint64_t accepted_ms) noexcept {
    const auto slot = [&record](std::uint32_t age) { return (record.next + Limit - age) % Limit; };
    for (std::uint32_t age = 1; age <= record.count; ++age) {
        if (record.accepted_ms[slot(age)] != accepted_ms) continue;
        for (; age > 1; --age) record.accepted_ms[slot(age)] = record.accepted_ms[slot(age - 1)];
        record.next = slot(1);
        --record.count;
        return;
    }
}

// Nothing that the record holds matters any more: it may be freed.
template <std::uint32_t Limit>
[[nodiscard]] bool rate_window_is_idle(const RateWindowRecord<Limit>& record, std::uint64_t now_ms) noexcept {
    if (record.count == 0) return true;
    return now_ms >= record.accepted_ms[(record.next + Limit - 1) % Limit] + kRateWindowMs;
}

}  // namespace durable
