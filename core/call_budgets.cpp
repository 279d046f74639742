// SPDX-License-Identifier: BSD-2-Clause
#include "core/call_budgets.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "core/digest.h"
#include "core/rate_window.h"

namespace durable {

namespace {

// So many at each new record, which keeps pace with those that come.
constexpr std::uint32_t kBucketsPerRecord = 4;

template <std::uint32_t Limit>
RateWindowRecord<Limit>& window_of(CallBudgetRecord& record) noexcept {
    return *reinterpret_cast<RateWindowRecord<Limit>*>(&record + 1);
}

// Calls `use` with the record's window.
template <class Use>
auto with_window(CallBudgetRecord& record, Use&& use) noexcept {
    switch (record.kind) {
        case CallBudget::list: return use(window_of<kListBudget>(record));
        case CallBudget::fetch: return use(window_of<kFetchBudget>(record));
        case CallBudget::change: break;
    }
    return use(window_of<kChangeBudget>(record));
}

CallBudgetRecord* find_budget(const ZoneRoot& root, const BudgetName& name) noexcept {
    return root.budgets.find(name.hash, [&](const CallBudgetRecord& record) {
        return record.kind == name.kind && std::equal(name.account, name.account + sizeof name.account, record.account);
    });
}

CallBudgetRecord* make_budget(ZoneLock& lock, const BudgetName& name) noexcept {
    constexpr std::size_t kLarge = sizeof(RateWindowRecord<std::max(kListBudget, kFetchBudget)>);
    static_assert(sizeof(CallBudgetRecord) + kLarge <= 1024);
    const std::size_t size = name.kind == CallBudget::change ? sizeof(RateWindowRecord<kChangeBudget>) : kLarge;
    auto* record = lock.create<CallBudgetRecord>(size);
    if (record == nullptr) return nullptr;
    record->kind = name.kind;
    std::copy_n(name.account, sizeof name.account, record->account);
    with_window(*record, [](auto& window) { new (&window) std::decay_t<decltype(window)>(); });
    lock.root().budgets.insert(*record, name.hash);
    return record;
}

}  // namespace

BudgetName::BudgetName(std::string_view account_text, CallBudget budget_kind) : account{}, kind(budget_kind) {
    sha256_hex(account_text).copy(account, sizeof account);
    hash = hash_bytes({account, sizeof account}, static_cast<std::uint32_t>(kind));
}

BudgetOutcome charge_budget(ZoneLock& lock, const BudgetName& name, std::uint64_t now_ms) noexcept {
    CallBudgetRecord* record = find_budget(lock.root(), name);
    if (record == nullptr) {
        sweep_budgets(lock, kBucketsPerRecord, now_ms);
        record = make_budget(lock, name);
    }
    if (record == nullptr) return BudgetOutcome::no_memory;
    const bool is_accepted = with_window(*record, [&](auto& window) { return rate_window_accept(window, now_ms); });
    return is_accepted ? BudgetOutcome::accepted : BudgetOutcome::exceeded;
}

void refund_budget(ZoneLock& lock, const BudgetName& name, std::uint64_t accepted_ms) noexcept {
    CallBudgetRecord* record = find_budget(lock.root(), name);
    if (record == nullptr) return;
    with_window(*record, [&](auto& window) { rate_window_withdraw(window, accepted_ms); });
}

void sweep_budgets(ZoneLock& lock, std::uint32_t buckets, std::uint64_t now_ms) noexcept {
    ZoneRoot& root = lock.root();
    for (; buckets != 0; --buckets) {
        root.next_budget_bucket = (root.next_budget_bucket + 1) % root.budgets.bucket_count();
        for (CallBudgetRecord* record = root.budgets.bucket(root.next_budget_bucket); record != nullptr;) {
            CallBudgetRecord* next = record->hash_next;
            if (with_window(*record, [&](auto& window) { return rate_window_is_idle(window, now_ms); })) {
                root.budgets.remove(*record);
                lock.destroy(record);
            }
            record = next;
        }
    }
}

}  // namespace durable
