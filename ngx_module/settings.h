// SPDX-License-Identifier: BSD-2-Clause
// What the configuration says. Plain structs, made by nginx in the cycle's pool and never destroyed
// one by one: the zones' memory is already unmapped when that pool goes.
#pragma once

#include "core/zone.h"
#include "ngx_module/nginx.h"

namespace durable {

class EventStore;
class Worker;
struct EmitOptions;
struct EventsOptions;
struct IdentityOptions;
struct StoreOptions;

// `durable_zone`. `index` is its place in MainSettings::zones; the first one is the default.
struct ZoneSettings {
    ngx_shm_zone_t* shm_zone;
    ngx_str_t name;
    ZoneLimits limits;
    ZoneRoot* root;  // set by the zone's initialisation
    ngx_uint_t index;
    StoreOptions* store;  // whose budgets it keeps; nullptr: none's
};

// A directive that names a zone, to be checked when all are known.
struct ZoneUse {
    ngx_shm_zone_t* shm_zone;
    ngx_str_t directive;
};

struct MainSettings {
    ngx_array_t zones;      // of ZoneSettings*
    ngx_array_t zone_uses;  // of ZoneUse
    ngx_array_t handlers;   // of HandlerOptions
    StoreOptions* store;    // nullptr: no `durable_store`
    Worker* worker;         // of this process; nullptr before its first use
    EventStore* event_store;  // of this process; nullptr where there is none
    unsigned has_events : 1;  // a location has `durable_events`
    unsigned has_emit : 1;
};

// `durable_object` and `durable_exclusive`.
struct ObjectSettings {
    ngx_shm_zone_t* shm_zone;
    ngx_http_complex_value_t key;
    ngx_uint_t queue;
    ngx_msec_t wait;

    const ZoneSettings& zone() const noexcept { return *static_cast<ZoneSettings*>(shm_zone->data); }
};

struct HistorySettings {
    ngx_uint_t messages;
    ngx_msec_t max_age;  // 0 = no limit
};

enum class ContentHandler : std::uint8_t { none, publish, subscribe, api, events, status };

struct LocationSettings {
    ObjectSettings* object;     // nullptr: off
    ObjectSettings* exclusive;  // nullptr: not a whole-request section
    ngx_msec_t event_timeout;
    ngx_msec_t ping;
    ngx_msec_t retry;  // NGX_CONF_UNSET_MSEC: none is sent
    ngx_msec_t exclusive_timeout;
    size_t stream_buffer;
    ngx_uint_t subscribe_format;
    ngx_uint_t subscribe_from;
    ngx_str_t exclusive_handler;
    HistorySettings* history;               // nullptr: off
    ngx_http_complex_value_t* publish;      // the channel
    ngx_array_t* subscribe;                 // of ngx_http_complex_value_t
    ngx_str_t content_directive;            // which one made the content handler
    ngx_http_handler_pt content_handler;    // that it made; nullptr: none
    ContentHandler content;
    EventsOptions* events;      // of `durable_events`
    IdentityOptions* identity;  // nullptr: not given
    EmitOptions* emit;          // nullptr: not given
};

enum SubscribeFormat : ngx_uint_t { kFormatText, kFormatJson };
enum SubscribeFrom : ngx_uint_t { kFromNewest, kFromOldest };

inline MainSettings* main_settings(ngx_http_request_t* r) noexcept {
    return static_cast<MainSettings*>(ngx_http_get_module_main_conf(r, ngx_http_durable_module));
}
inline LocationSettings* location_settings(ngx_http_request_t* r) noexcept {
    return static_cast<LocationSettings*>(ngx_http_get_module_loc_conf(r, ngx_http_durable_module));
}
inline ngx_http_core_loc_conf_t* core_settings(ngx_http_request_t* r) noexcept {
    return static_cast<ngx_http_core_loc_conf_t*>(ngx_http_get_module_loc_conf(r, ngx_http_core_module));
}

void* create_main_settings(ngx_conf_t* cf) noexcept;
void* create_location_settings(ngx_conf_t* cf) noexcept;
char* merge_location_settings(ngx_conf_t* cf, void* parent, void* child) noexcept;
// The checks that need the whole configuration.
ngx_int_t check_settings(ngx_conf_t* cf) noexcept;

// The module's directives; directives.cpp.
extern ngx_command_t durable_commands[];

}  // namespace durable
