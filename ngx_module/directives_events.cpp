// SPDX-License-Identifier: BSD-2-Clause
// The directives of the events API; their table is in directives.cpp.
#include <algorithm>

#include "core/digest.h"
#include "core/text_rules.h"
#include "core/webhook.h"
#include "ngx_module/directive_tools.h"
#include "ngx_module/event_settings.h"
#include "ngx_module/events_handler.h"
#include "ngx_module/pool.h"

namespace durable {

namespace {

// A number from 1 to `most` behind `name`; NGX_ERROR where it is none.
std::int64_t read_count(const ngx_str_t& argument, std::string_view name, std::int64_t most) noexcept {
    const ngx_str_t text = behind(argument, name);
    const ngx_int_t count = ngx_atoi(text.data, text.len);
    return count >= 1 && count <= most ? count : NGX_ERROR;
}

// ---- durable_store ----

char* store_parameter(ngx_conf_t* cf, const ngx_str_t& argument, StoreOptions& store) noexcept {
    constexpr std::int64_t kMostEvents = 1000000000;
    if (starts_with(argument, "zone=")) {
        ngx_str_t name = behind(argument, "zone=");
        if (name.len == 0) return refuse(cf, argument, "the name of a \"durable_zone\"");
        auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
        auto* use = static_cast<ZoneUse*>(ngx_array_push(&main.zone_uses));
        store.shm_zone = ngx_shared_memory_add(cf, &name, 0, &ngx_http_durable_module);
        if (use == nullptr || store.shm_zone == nullptr) return kDirectiveFailed;
        *use = {store.shm_zone, arguments(cf)[0]};
    } else if (starts_with(argument, "retention=")) {
        ngx_str_t text = behind(argument, "retention=");
        const ngx_int_t time = ngx_parse_time(&text, 0);
        if (time < 1000 || time > 3650LL * 24 * 3600 * 1000) return refuse(cf, argument, "a time from 1s to 3650d");
        store.retention_ms = time;
    } else if (starts_with(argument, "events=")) {
        store.events = read_count(argument, "events=", kMostEvents);
        if (store.events == NGX_ERROR) return refuse(cf, argument, "a number from 1 to 1000000000");
    } else {
        return unknown_parameter(cf, argument);
    }
    return NGX_CONF_OK;
}

// ---- durable_handler ----

bool is_handler_name(std::string_view name) noexcept {
    return check_operation_name(name) == ErrorCode::ok;  // 1 to 128 bytes of UTF-8 without control characters
}

// The value is a secret, so the message does not repeat it.
char* refuse_secret(ngx_conf_t* cf) noexcept {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"secret=...\" in \"%V\", it must be a key, or \"whsec_\" and the base64 of one",
                       &arguments(cf)[0]);
    return kDirectiveFailed;
}

char* read_secret(ngx_conf_t* cf, const ngx_str_t& argument, HandlerOptions& handler) noexcept {
    constexpr std::string_view kBase64 = "whsec_";
    const ngx_str_t text = behind(argument, "secret=");
    if (text.len == 0) return refuse_secret(cf);
    handler.secret = text;
    if (!starts_with(text, kBase64)) return NGX_CONF_OK;
    try {
        const auto key = base64_decode(view(behind(text, kBase64)));
        if (!key || key->empty()) return refuse_secret(cf);
        handler.secret = copy_to_pool(cf->pool, *key);
    } catch (const std::bad_alloc&) { return kDirectiveFailed; }
    return handler.secret.data == nullptr ? kDirectiveFailed : NGX_CONF_OK;
}

char* handler_parameter(ngx_conf_t* cf, const ngx_str_t& argument, HandlerOptions& handler) noexcept {
    if (starts_with(argument, "secret=")) return read_secret(cf, argument, handler);
    if (!starts_with(argument, "timeout=")) return unknown_parameter(cf, argument);
    ngx_str_t text = behind(argument, "timeout=");
    const ngx_int_t time = ngx_parse_time(&text, 0);
    if (time < 1 || time > 3600 * 1000) return refuse(cf, argument, "a time from 1ms to 1h");
    handler.timeout = static_cast<ngx_msec_t>(time);
    return NGX_CONF_OK;
}

bool is_webhook_url(std::string_view url) noexcept {
    try {
        return parse_webhook_url(url).has_value();
    } catch (const std::bad_alloc&) { return false; }
}

// ---- durable_events ----

// As a browser's `Origin` header has it: scheme://host[:port] in lower case, and nothing behind it.
bool is_origin(std::string_view text) noexcept {
    const std::size_t colon = text.find("://");
    if (colon == std::string_view::npos || colon == 0 || colon + 3 == text.size()) return false;
    const std::string_view host = text.substr(colon + 3);
    const auto is_plain = [](char byte) { return byte > 0x20 && byte < 0x7F && !(byte >= 'A' && byte <= 'Z'); };
    return std::all_of(text.begin(), text.end(), is_plain) && host.find_first_of("/?#@*\"") == std::string_view::npos;
}

char* events_parameter(ngx_conf_t* cf, const ngx_str_t& argument, EventsOptions& events) noexcept {
    constexpr std::int64_t kMostRows = 1000000000;
    constexpr const char* kRange = "a number from 1 to 1000000000";
    if (starts_with(argument, "cors=")) {
        const ngx_str_t origin = behind(argument, "cors=");
        if (!is_origin(view(origin)))
            return refuse(cf, argument, "an origin as browsers send it, like https://example.com");
        auto* place = static_cast<ngx_str_t*>(ngx_array_push(&events.origins));
        if (place == nullptr) return kDirectiveFailed;
        *place = origin;
    } else if (starts_with(argument, "account_rows=")) {
        events.account_rows = read_count(argument, "account_rows=", kMostRows);
        if (events.account_rows == NGX_ERROR) return refuse(cf, argument, kRange);
    } else if (starts_with(argument, "app_rows=")) {
        events.app_rows = read_count(argument, "app_rows=", kMostRows);
        if (events.app_rows == NGX_ERROR) return refuse(cf, argument, kRange);
    } else {
        return unknown_parameter(cf, argument);
    }
    return NGX_CONF_OK;
}

}  // namespace

char* set_store(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& main = *static_cast<MainSettings*>(conf);
    const ngx_str_t* value = arguments(cf);
    if (main.store != nullptr) return duplicate();
    auto* store = static_cast<StoreOptions*>(ngx_pcalloc(cf->pool, sizeof(StoreOptions)));
    if (store == nullptr) return kDirectiveFailed;
    store->path = value[1];
    if (store->path.len == 0 || store->path.data[store->path.len - 1] == '/') {
        return refuse(cf, value[1], "the path of a file");
    }
    if (ngx_conf_full_name(cf->cycle, &store->path, 0) != NGX_OK) return kDirectiveFailed;
    store->cycle = cf->cycle;
    store->retention_ms = 7LL * 24 * 3600 * 1000;
    store->events = 1000000;
    for (ngx_uint_t i = 2; i < cf->args->nelts; ++i) {
        if (char* failed = store_parameter(cf, value[i], *store)) return failed;
    }
    main.store = store;
    return NGX_CONF_OK;
}

char* set_handler(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& main = *static_cast<MainSettings*>(conf);
    const ngx_str_t* value = arguments(cf);
    HandlerOptions handler{value[1], value[2], ngx_null_string, 30000};
    if (!is_handler_name(view(handler.name)))
        return refuse(cf, value[1], "1 to 128 bytes of UTF-8 without control characters");
    if (!is_webhook_url(view(handler.url))) {
        return refuse(cf, value[2], "an http:// or https:// URL with a host and without user information");
    }
    for (ngx_uint_t i = 3; i < cf->args->nelts; ++i) {
        if (char* failed = handler_parameter(cf, value[i], handler)) return failed;
    }
    const auto* known = static_cast<HandlerOptions*>(main.handlers.elts);
    for (ngx_uint_t i = 0; i < main.handlers.nelts; ++i) {
        if (view(known[i].name) != view(handler.name)) continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate \"durable_handler\" \"%V\"", &handler.name);
        return kDirectiveFailed;
    }
    auto* place = static_cast<HandlerOptions*>(ngx_array_push(&main.handlers));
    if (place == nullptr) return kDirectiveFailed;
    *place = handler;
    return NGX_CONF_OK;
}

char* set_events(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (char* failed = refuse_without_prefix(cf)) return failed;
    if (char* failed = set_content(cf, location, ContentHandler::events, on_events_request)) return failed;
    auto* events = static_cast<EventsOptions*>(ngx_pcalloc(cf->pool, sizeof(EventsOptions)));
    if (events == nullptr || ngx_array_init(&events->origins, cf->pool, 2, sizeof(ngx_str_t)) != NGX_OK)
        return kDirectiveFailed;
    events->account_rows = 500;
    events->app_rows = 100;
    for (ngx_uint_t i = 1; i < cf->args->nelts; ++i) {
        if (char* failed = events_parameter(cf, arguments(cf)[i], *events)) return failed;
    }
    location.events = events;
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
    main.has_events = 1;
    return NGX_CONF_OK;
}

char* set_identity(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.identity != NGX_CONF_UNSET_PTR) return duplicate();
    auto* identity = static_cast<IdentityOptions*>(ngx_pcalloc(cf->pool, sizeof(IdentityOptions)));
    if (identity == nullptr || !compile(cf, arguments(cf)[1], &identity->account)) return kDirectiveFailed;
    if (cf->args->nelts == 3) {
        identity->app = static_cast<ngx_http_complex_value_t*>(ngx_pcalloc(cf->pool, sizeof(ngx_http_complex_value_t)));
        if (identity->app == nullptr || !compile(cf, arguments(cf)[2], identity->app)) return kDirectiveFailed;
    }
    location.identity = identity;
    return NGX_CONF_OK;
}

char* set_emit(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.emit != NGX_CONF_UNSET_PTR) return duplicate();
    auto* emit = static_cast<EmitOptions*>(ngx_pcalloc(cf->pool, sizeof(EmitOptions)));
    if (emit == nullptr || !compile(cf, arguments(cf)[1], &emit->subject) ||
        !compile(cf, arguments(cf)[2], &emit->op)) {
        return kDirectiveFailed;
    }
    location.emit = emit;
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
    main.has_emit = 1;
    return NGX_CONF_OK;
}

}  // namespace durable
