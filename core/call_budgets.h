// SPDX-License-Identifier: BSD-2-Clause
// How often an account may call the events API (E-24), for all workers together. Records come with the first call of
// a kind and go once all that they hold is older than the window.
// `now_ms` is unix time; that the workers' clocks differ by some milliseconds does no harm.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/zone.h"

namespace durable {

inline constexpr std::uint32_t kListBudget = 120;
inline constexpr std::uint32_t kChangeBudget = 60;
inline constexpr std::uint32_t kFetchBudget = 120;

enum class BudgetOutcome : std::uint8_t { accepted, exceeded, no_memory };

// An account's budget of one kind. Made before the lock is taken.
struct BudgetName {
    BudgetName(std::string_view account, CallBudget kind);

    char account[32];  // see CallBudgetRecord
    CallBudget kind;
    std::uint32_t hash;
};

// Counts a call, if it is within the budget.
[[nodiscard]] BudgetOutcome charge_budget(ZoneLock& lock, const BudgetName& name, std::uint64_t now_ms) noexcept;

// Takes back the call that was counted at `accepted_ms`: it was refused after all.
void refund_budget(ZoneLock& lock, const BudgetName& name, std::uint64_t accepted_ms) noexcept;

// Frees idle records of the next `buckets` buckets of the index.
void sweep_budgets(ZoneLock& lock, std::uint32_t buckets, std::uint64_t now_ms) noexcept;

}  // namespace durable
