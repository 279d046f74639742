// SPDX-License-Identifier: BSD-2-Clause
// Why a row stopped, what is kept for it meanwhile, and what brings it back (E-35, E-37 to E-39). Every call runs
// inside the caller's transaction.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/database.h"
#include "core/delivery.h"
#include "core/event_documents.h"
#include "core/store_types.h"

namespace durable {

inline constexpr std::string_view kHandlerNotFound = "handler_not_found";
inline constexpr std::string_view kFailures = "failures";
inline constexpr std::string_view kNoCredit = "no_credit";
inline constexpr std::string_view kPermissionRevoked = "permission_revoked";
inline constexpr std::int64_t kMaxSuspendedBacklog = 100;

// Suspends one row whatever its state.
void suspend_row(Database& database, std::int64_t row, std::string_view reason, std::int64_t now_ms);

// Keeps the newest 100 of what the row is owed.
void cut_backlog(Database& database, std::int64_t row);

// Operator calls; both return how many rows changed (E-37, E-39). Rows whose handler is not configured, and revoked
// ones, are not resumed.
std::int64_t suspend_rows(Database& database, const SuspensionRequest& request, std::int64_t now_ms);
std::int64_t resume_rows(Database& database, Delivery& delivery, const SuspensionRequest& request, std::int64_t now_ms);

// At a start with this configuration: suspends rows whose handler is gone, resumes those whose handler is back or has
// changed. Returns how many rows changed.
std::int64_t apply_handlers(Database& database, Delivery& delivery, const std::vector<HandlerSettings>& handlers,
                            std::int64_t now_ms);

// Deletes a bounded number of rows that expired or were suspended 30 days ago, and of backlog that is too old. True:
// there is more.
bool sweep(Database& database, std::int64_t now_ms);

}  // namespace durable
