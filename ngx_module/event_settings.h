// SPDX-License-Identifier: BSD-2-Clause
// What the configuration says about the events API. Plain structs in the cycle's pool, as in settings.h.
#pragma once

#include "ngx_module/settings.h"

namespace durable {

// `durable_store`.
struct StoreOptions {
    ngx_str_t path;            // absolute, NUL-terminated
    ngx_cycle_t* cycle;        // that configures it
    ngx_shm_zone_t* shm_zone;  // keeps the budgets (E-24); nullptr until all zones are known: the first one
    std::int64_t retention_ms;
    std::int64_t events;

    const ZoneSettings& zone() const noexcept { return *static_cast<ZoneSettings*>(shm_zone->data); }
};

// `durable_handler`.
struct HandlerOptions {
    ngx_str_t name;
    ngx_str_t url;
    ngx_str_t secret;  // the key's own bytes; empty: calls are not signed
    ngx_msec_t timeout;
};

// `durable_events`.
struct EventsOptions {
    ngx_array_t origins;  // of ngx_str_t (E-6)
    ngx_int_t account_rows;
    ngx_int_t app_rows;
};

// `durable_identity`.
struct IdentityOptions {
    ngx_http_complex_value_t account;
    ngx_http_complex_value_t* app;  // nullptr: not given
};

// `durable_emit`.
struct EmitOptions {
    ngx_http_complex_value_t subject;
    ngx_http_complex_value_t op;
};

// At the end of the http block: finds the store's zone.
ngx_int_t check_event_settings(ngx_conf_t* cf, MainSettings& main) noexcept;

// In zone initialisation, when the user of the workers is known: the store's folder must be there and
// be writable for them. Touches nothing in it.
ngx_int_t check_store_folder(const StoreOptions& store, ngx_log_t* log) noexcept;

}  // namespace durable
