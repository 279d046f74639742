// SPDX-License-Identifier: BSD-2-Clause
#include "core/call_budgets.h"

#include "core/tests/zone_fixture.h"

namespace durable {

class CallBudgetsTest : public CppUnit::TestFixture {
    CPPUNIT_TEST_SUITE(CallBudgetsTest);
    CPPUNIT_TEST(two_workers_share_one_budget);
    CPPUNIT_TEST(accounts_and_kinds_have_budgets_of_their_own);
    CPPUNIT_TEST(a_refund_frees_a_place_in_any_worker);
    CPPUNIT_TEST(idle_records_are_freed_by_later_ones);
    CPPUNIT_TEST(a_full_zone_refuses_and_changes_nothing);
    CPPUNIT_TEST_SUITE_END();

    HeapMemory memory_;
    ZoneRoot* root_ = nullptr;

    static BudgetOutcome charge(Worker& worker, std::string_view account, CallBudget kind, std::uint64_t now_ms) {
        const BudgetName name(account, kind);
        return worker.locked([&](ZoneLock& lock) { return charge_budget(lock, name, now_ms); });
    }

public:
    void setUp() override { root_ = make_root(memory_); }

    void two_workers_share_one_budget() {  // E-24
        Worker one(memory_, *root_, 1), two(memory_, *root_, 2);
        for (std::uint32_t i = 0; i < kListBudget; ++i) {
            CPPUNIT_ASSERT(charge(i % 2 ? one : two, "a", CallBudget::list, kNow) == BudgetOutcome::accepted);
        }
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::list, kNow + 59999) == BudgetOutcome::exceeded);
        CPPUNIT_ASSERT(charge(two, "a", CallBudget::list, kNow + 60000) == BudgetOutcome::accepted);
    }

    void accounts_and_kinds_have_budgets_of_their_own() {
        Worker one(memory_, *root_, 1);
        for (std::uint32_t i = 0; i < kChangeBudget; ++i) {
            CPPUNIT_ASSERT(charge(one, "a", CallBudget::change, kNow) == BudgetOutcome::accepted);
        }
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::change, kNow) == BudgetOutcome::exceeded);
        CPPUNIT_ASSERT(charge(one, "b", CallBudget::change, kNow) == BudgetOutcome::accepted);
        for (std::uint32_t i = 0; i < kFetchBudget; ++i) {
            CPPUNIT_ASSERT(charge(one, "a", CallBudget::fetch, kNow) == BudgetOutcome::accepted);
        }
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::fetch, kNow) == BudgetOutcome::exceeded);
    }

    void a_refund_frees_a_place_in_any_worker() {
        Worker one(memory_, *root_, 1), two(memory_, *root_, 2);
        for (std::uint32_t i = 0; i < kChangeBudget; ++i) {
            CPPUNIT_ASSERT(charge(one, "a", CallBudget::change, kNow + i) == BudgetOutcome::accepted);
        }
        const BudgetName name("a", CallBudget::change);
        two.locked([&](ZoneLock& lock) { refund_budget(lock, name, kNow + 7); });
        two.locked([&](ZoneLock& lock) { refund_budget(lock, BudgetName("unknown", CallBudget::list), kNow); });
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::change, kNow + 60) == BudgetOutcome::accepted);
        CPPUNIT_ASSERT(charge(two, "a", CallBudget::change, kNow + 60) == BudgetOutcome::exceeded);
    }

    void idle_records_are_freed_by_later_ones() {
        Worker one(memory_, *root_, 1);
        const auto use = [&](int first, std::uint64_t now_ms) {
            for (int i = 0; i < 200; ++i) {
                CPPUNIT_ASSERT(charge(one, std::to_string(first + i), CallBudget::list, now_ms) ==
                               BudgetOutcome::accepted);
            }
        };
        use(0, kNow);
        CPPUNIT_ASSERT_EQUAL(200u, root_->budgets.count());
        use(1000, kNow + 60000);
        CPPUNIT_ASSERT_EQUAL(200u, root_->budgets.count());
        one.locked([&](ZoneLock& lock) { sweep_budgets(lock, lock.root().budgets.bucket_count(), kNow + 120000); });
        CPPUNIT_ASSERT_EQUAL(0u, root_->budgets.count());
    }

    void a_full_zone_refuses_and_changes_nothing() {
        Worker one(memory_, *root_, 1);
        memory_.fail_after(0);
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::list, kNow) == BudgetOutcome::no_memory);
        memory_.fail_after(-1);
        CPPUNIT_ASSERT_EQUAL(0u, root_->budgets.count());
        CPPUNIT_ASSERT(charge(one, "a", CallBudget::list, kNow) == BudgetOutcome::accepted);
    }
};

CPPUNIT_TEST_SUITE_REGISTRATION(CallBudgetsTest);

}  // namespace durable
