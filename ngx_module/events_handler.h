// SPDX-License-Identifier: BSD-2-Clause
// The content handler of `durable_events`: the calls of the events API (E-4 to E-25, E-29 to E-31),
// and the headers that let browsers of other origins make them (E-6).
#pragma once

#include <optional>

#include "core/store_types.h"
#include "ngx_module/settings.h"

namespace durable {

ngx_int_t on_events_request(ngx_http_request_t* r) noexcept;

// Answers a browser's OPTIONS (E-6) before access control, which it has no credentials for.
ngx_int_t on_preflight_phase(ngx_http_request_t* r) noexcept;

// Every answer of such a location, nginx's own too, passes it.
void install_cross_origin_filter() noexcept;

// Who is calling (E-4); nothing where the account is empty. False when out of memory.
[[nodiscard]] bool identify_caller(ngx_http_request_t* r, std::optional<Caller>& caller);

}  // namespace durable
