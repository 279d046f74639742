// SPDX-License-Identifier: BSD-2-Clause
// The store's file: opening it, its tables, and bringing an older file up to date (E-1). Called by the store thread.
#pragma once

#include <string>

#include "core/database.h"

namespace durable {

inline constexpr int kSchemaVersion = 1;

// Opens, creates or migrates the file. False: the database is closed and its error says why, for people.
[[nodiscard]] bool open_store(Database& database, const std::string& path);

}  // namespace durable
