// SPDX-License-Identifier: BSD-2-Clause
// Rows of persistent subscriptions: made, listed, removed (E-10 to E-13, E-20 to E-25). Every call runs inside the
// caller's transaction; whether SQLite failed is read from the database at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/database.h"
#include "core/event_documents.h"
#include "core/store_types.h"

namespace durable {

class SubscriptionStore {
public:
    explicit SubscriptionStore(Database& database) noexcept : database_(database) {}

    // Checks the quotas and inserts. A refusal leaves no trace.
    [[nodiscard]] Refusal insert(const Caller& caller, const NewSubscription& wanted, const Quotas& quotas,
                                 std::int64_t now_ms, SubscriptionRow& row);

    struct Page {
        std::vector<SubscriptionRow> rows;
        bool has_more = false;
        std::optional<std::int64_t> total;
    };
    [[nodiscard]] Page list(const Caller& caller, const PageRequest& request, std::int64_t now_ms);

    // False: the caller has no such row (E-25).
    [[nodiscard]] bool remove(const Caller& caller, const std::string& sub_id);

    // The row's key, or nullopt when the caller has no such row.
    [[nodiscard]] std::optional<std::int64_t> find(const Caller& caller, const std::string& sub_id);

private:
    Database& database_;
};

}  // namespace durable
