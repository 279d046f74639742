// SPDX-License-Identifier: BSD-2-Clause
#include "core/text_rules.h"
#include "ngx_module/directive_tools.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/publish_handler.h"
#include "ngx_module/shared_zone.h"
#include "ngx_module/subscribe_handler.h"

namespace durable {

char* set_content(ngx_conf_t* cf, LocationSettings& location, ContentHandler content,
                  ngx_http_handler_pt handler) noexcept {
    auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (location.content != ContentHandler::none || core.handler != nullptr) {
        if (location.content == content) return duplicate();
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\": this location has a content handler already",
                           &arguments(cf)[0]);
        return kDirectiveFailed;
    }
    location.content = content;
    location.content_directive = arguments(cf)[0];
    core.handler = location.content_handler = handler;
    return NGX_CONF_OK;
}

char* refuse_without_prefix(ngx_conf_t* cf) noexcept {
    const auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    bool has_prefix = !core.exact_match && !core.named;
#if (NGX_PCRE)
    has_prefix = has_prefix && core.regex == nullptr;
#endif
    if (has_prefix) return nullptr;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" needs a location with a prefix, which \"%V\" is not",
                       &arguments(cf)[0], &core.name);
    return kDirectiveFailed;
}

namespace {

// ---- durable_zone ----

char* zone_limit(ngx_conf_t* cf, const ngx_str_t& argument, ZoneLimits& limits) noexcept {
    constexpr ngx_int_t kMost = 1000000000;
    if (starts_with(argument, "channels=")) {
        ngx_str_t text = behind(argument, "channels=");
        const ngx_int_t n = ngx_atoi(text.data, text.len);
        if (n < 64 || n > kMost) return refuse(cf, argument, "a number from 64 to 1000000000");
        limits.channels = static_cast<std::uint32_t>(n);
    } else if (starts_with(argument, "subscriptions=")) {
        ngx_str_t text = behind(argument, "subscriptions=");
        const ngx_int_t n = ngx_atoi(text.data, text.len);
        if (n < 256 || n > kMost) return refuse(cf, argument, "a number from 256 to 1000000000");
        limits.subscriptions = static_cast<std::uint32_t>(n);
    } else if (starts_with(argument, "backlog=")) {
        ngx_str_t text = behind(argument, "backlog=");
        const off_t n = ngx_parse_offset(&text);
        if (n < 1048576 || n > kMost) return refuse(cf, argument, "a size from 1m to 1000000000");
        limits.backlog = static_cast<std::uint64_t>(n);
    } else {
        return unknown_parameter(cf, argument);
    }
    return NGX_CONF_OK;
}

char* set_zone(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& main = *static_cast<MainSettings*>(conf);
    const ngx_str_t* value = arguments(cf);
    if (value[1].len == 0) return refuse(cf, value[1], "a name");
    ngx_str_t size_text = value[2];
    const ssize_t size = ngx_parse_size(&size_text);
    if (size < 1048576) return refuse(cf, value[2], "a size of at least 1m");
    auto* zone = static_cast<ZoneSettings*>(ngx_pcalloc(cf->pool, sizeof(ZoneSettings)));
    if (zone == nullptr) return kDirectiveFailed;
    zone->limits = ZoneLimits();
    for (ngx_uint_t i = 3; i < cf->args->nelts; ++i) {
        if (char* failed = zone_limit(cf, value[i], zone->limits)) return failed;
    }
    ngx_str_t name = value[1];
    zone->shm_zone = ngx_shared_memory_add(cf, &name, static_cast<size_t>(size), &ngx_http_durable_module);
    auto** place = static_cast<ZoneSettings**>(ngx_array_push(&main.zones));
    if (zone->shm_zone == nullptr || place == nullptr) return kDirectiveFailed;
    if (zone->shm_zone->data != nullptr) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate \"durable_zone\" \"%V\"", &name);
        return kDirectiveFailed;
    }
    zone->name = name;
    zone->index = main.zones.nelts - 1;
    zone->shm_zone->init = on_zone_init;
    zone->shm_zone->data = zone;
    *place = zone;
    return NGX_CONF_OK;
}

// ---- durable_object ----

// `zone key [queue=N] [wait=TIME]`; nullptr when refused.
ObjectSettings* parse_object(ngx_conf_t* cf, ngx_msec_t default_wait) noexcept {
    const ngx_str_t* value = arguments(cf);
    auto& main = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
    auto* object = static_cast<ObjectSettings*>(ngx_pcalloc(cf->pool, sizeof(ObjectSettings)));
    auto* use = static_cast<ZoneUse*>(ngx_array_push(&main.zone_uses));
    if (object == nullptr || use == nullptr) return nullptr;
    ngx_str_t name = value[1];
    if (name.len == 0) {
        refuse(cf, name, "the name of a \"durable_zone\"");
        return nullptr;
    }
    object->shm_zone = ngx_shared_memory_add(cf, &name, 0, &ngx_http_durable_module);
    if (object->shm_zone == nullptr || !compile(cf, value[2], &object->key)) return nullptr;
    *use = {object->shm_zone, value[0]};
    object->queue = 1000;
    object->wait = default_wait;
    for (ngx_uint_t i = 3; i < cf->args->nelts; ++i) {
        if (starts_with(value[i], "queue=")) {
            const ngx_str_t text = behind(value[i], "queue=");
            const ngx_int_t n = ngx_atoi(text.data, text.len);
            if (n < 0 || n > 1000000) {
                refuse(cf, value[i], "a number from 0 to 1000000");
                return nullptr;
            }
            object->queue = static_cast<ngx_uint_t>(n);
        } else if (starts_with(value[i], "wait=")) {
            ngx_str_t text = behind(value[i], "wait=");
            const ngx_int_t n = ngx_parse_time(&text, 0);
            if (n < 1 || n > 24 * 3600 * 1000) {
                refuse(cf, value[i], "a time from 1ms to 24h");
                return nullptr;
            }
            object->wait = static_cast<ngx_msec_t>(n);
        } else {
            unknown_parameter(cf, value[i]);
            return nullptr;
        }
    }
    return object;
}

char* set_object(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.object != NGX_CONF_UNSET_PTR) return duplicate();
    if (cf->args->nelts == 2) {
        if (view(arguments(cf)[1]) != "off") return refuse(cf, arguments(cf)[1], "\"off\", or a zone and a key");
        location.object = nullptr;
        return NGX_CONF_OK;
    }
    location.object = parse_object(cf, 60 * 1000);
    return location.object == nullptr ? kDirectiveFailed : NGX_CONF_OK;
}

char* set_exclusive(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.exclusive != NGX_CONF_UNSET_PTR) return duplicate();
    location.exclusive = parse_object(cf, 30 * 1000);
    return location.exclusive == nullptr ? kDirectiveFailed : NGX_CONF_OK;
}

char* set_exclusive_timeout(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.exclusive_timeout != NGX_CONF_UNSET_MSEC) return duplicate();
    ngx_str_t text = arguments(cf)[1];
    const ngx_int_t time = ngx_parse_time(&text, 0);
    if (time < 1 || time > 30 * 1000) return refuse(cf, text, "a time from 1ms to 30s");
    location.exclusive_timeout = static_cast<ngx_msec_t>(time);
    return NGX_CONF_OK;
}

char* set_exclusive_handler(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.exclusive_handler.data != nullptr) return duplicate();
    const ngx_str_t& uri = arguments(cf)[1];
    if (uri.len == 0 || uri.data[0] != '/') return refuse(cf, uri, "a URI that begins with \"/\"");
    location.exclusive_handler = uri;
    return NGX_CONF_OK;
}

// ---- content handlers ----

char* set_publish(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (char* failed = set_content(cf, location, ContentHandler::publish, on_publish_request)) return failed;
    location.publish = static_cast<ngx_http_complex_value_t*>(ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t)));
    return location.publish != nullptr && compile(cf, arguments(cf)[1], location.publish) ? NGX_CONF_OK : kDirectiveFailed;
}

char* set_api(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (char* failed = refuse_without_prefix(cf)) return failed;
#if (NGX_THREADS)
    // Long JSON texts are checked there.
    if (ngx_thread_pool_add(cf, nullptr) == nullptr) return kDirectiveFailed;
#endif
    return set_content(cf, location, ContentHandler::api, on_api_request);
}

char* set_subscribe(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (char* failed = set_content(cf, location, ContentHandler::subscribe, on_subscribe_request)) return failed;
    if (cf->args->nelts - 1 > kMaxStreamChannels) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" takes 1 to 64 channels, not %ui", &arguments(cf)[0],
                           cf->args->nelts - 1);
        return kDirectiveFailed;
    }
    location.subscribe = ngx_array_create(cf->pool, cf->args->nelts - 1, sizeof(ngx_http_complex_value_t));
    if (location.subscribe == nullptr) return kDirectiveFailed;
    for (ngx_uint_t i = 1; i < cf->args->nelts; ++i) {
        auto* channel = static_cast<ngx_http_complex_value_t*>(ngx_array_push(location.subscribe));
        if (channel == nullptr || !compile(cf, arguments(cf)[i], channel)) return kDirectiveFailed;
    }
    return NGX_CONF_OK;
}

// ---- simple values ----

char* set_time(ngx_conf_t* cf, ngx_command_t* command, void* conf) noexcept {
    auto& field = *reinterpret_cast<ngx_msec_t*>(static_cast<char*>(conf) + command->offset);
    if (field != NGX_CONF_UNSET_MSEC) return duplicate();
    ngx_str_t text = arguments(cf)[1];
    const ngx_int_t time = ngx_parse_time(&text, 0);
    if (time < 0 || time > 365LL * 24 * 3600 * 1000) return refuse(cf, text, "a time from 0 to 365d");
    field = static_cast<ngx_msec_t>(time);
    return NGX_CONF_OK;
}

char* set_stream_buffer(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.stream_buffer != NGX_CONF_UNSET_SIZE) return duplicate();
    ngx_str_t text = arguments(cf)[1];
    const ssize_t size = ngx_parse_size(&text);
    if (size < 1 || size > 1024 * 1024 * 1024) return refuse(cf, text, "a size from 1 to 1024m");
    location.stream_buffer = static_cast<size_t>(size);
    return NGX_CONF_OK;
}

// `messages=N [time=T]`, or `off`.
char* set_history(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    auto& location = *static_cast<LocationSettings*>(conf);
    if (location.history != NGX_CONF_UNSET_PTR) return duplicate();
    location.history = nullptr;
    const ngx_str_t* value = arguments(cf);
    if (cf->args->nelts == 2 && view(value[1]) == "off") return NGX_CONF_OK;
    auto* history = static_cast<HistorySettings*>(ngx_pcalloc(cf->pool, sizeof(HistorySettings)));
    if (history == nullptr) return kDirectiveFailed;
    bool has_messages = false;
    for (ngx_uint_t i = 1; i < cf->args->nelts; ++i) {
        if (starts_with(value[i], "messages=")) {
            const ngx_str_t text = behind(value[i], "messages=");
            const ngx_int_t n = ngx_atoi(text.data, text.len);
            if (n < 0 || n > 1000000) return refuse(cf, value[i], "a number from 0 to 1000000");
            history->messages = static_cast<ngx_uint_t>(n);
            has_messages = true;
        } else if (starts_with(value[i], "time=")) {
            ngx_str_t text = behind(value[i], "time=");
            const ngx_int_t time = ngx_parse_time(&text, 0);
            if (time < 1 || time > 365LL * 24 * 3600 * 1000) return refuse(cf, value[i], "a time from 1ms to 365d");
            history->max_age = static_cast<ngx_msec_t>(time);
        } else {
            return unknown_parameter(cf, value[i]);
        }
    }
    if (!has_messages) return refuse(cf, value[1], "\"messages=N [time=T]\" or \"off\"");
    if (history->messages != 0) location.history = history;
    return NGX_CONF_OK;
}

// One of two words, the first of which is 0. nginx's own setter does not tell what is allowed.
char* set_word(ngx_conf_t* cf, ngx_uint_t& field, std::string_view first, std::string_view second, const char* range) noexcept {
    const ngx_str_t& word = arguments(cf)[1];
    if (field != NGX_CONF_UNSET_UINT) return duplicate();
    if (view(word) != first && view(word) != second) return refuse(cf, word, range);
    field = view(word) == first ? 0 : 1;
    return NGX_CONF_OK;
}

char* set_subscribe_format(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    static_assert(kFormatText == 0 && kFormatJson == 1);
    auto& location = *static_cast<LocationSettings*>(conf);
    return set_word(cf, location.subscribe_format, "text", "json", "\"text\" or \"json\"");
}

char* set_subscribe_from(ngx_conf_t* cf, ngx_command_t*, void* conf) noexcept {
    static_assert(kFromNewest == 0 && kFromOldest == 1);
    auto& location = *static_cast<LocationSettings*>(conf);
    return set_word(cf, location.subscribe_from, "newest", "oldest", "\"newest\" or \"oldest\"");
}

constexpr ngx_uint_t kAnywhere = NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF;

}  // namespace

ngx_command_t durable_commands[] = {
    {ngx_string("durable_zone"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, set_zone, NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_object"), kAnywhere | NGX_CONF_TAKE1234, set_object, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_exclusive"), NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_TAKE2 | NGX_CONF_TAKE3 | NGX_CONF_TAKE4,
     set_exclusive, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_exclusive_handler"), kAnywhere | NGX_CONF_TAKE1, set_exclusive_handler, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_exclusive_timeout"), kAnywhere | NGX_CONF_TAKE1, set_exclusive_timeout, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_api"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, set_api, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_publish"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1, set_publish, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_subscribe"), NGX_HTTP_LOC_CONF | NGX_CONF_1MORE, set_subscribe, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_subscribe_format"), kAnywhere | NGX_CONF_TAKE1, set_subscribe_format, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_subscribe_from"), kAnywhere | NGX_CONF_TAKE1, set_subscribe_from, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_history"), kAnywhere | NGX_CONF_TAKE12, set_history, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_stream_buffer"), kAnywhere | NGX_CONF_TAKE1, set_stream_buffer, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_event_timeout"), kAnywhere | NGX_CONF_TAKE1, set_time, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, event_timeout), nullptr},
    {ngx_string("durable_ping"), kAnywhere | NGX_CONF_TAKE1, set_time, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, ping), nullptr},
    {ngx_string("durable_retry"), kAnywhere | NGX_CONF_TAKE1, set_time, NGX_HTTP_LOC_CONF_OFFSET,
     offsetof(LocationSettings, retry), nullptr},
    {ngx_string("durable_store"), NGX_HTTP_MAIN_CONF | NGX_CONF_1MORE, set_store, NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_events"), NGX_HTTP_LOC_CONF | NGX_CONF_ANY, set_events, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_identity"), kAnywhere | NGX_CONF_TAKE12, set_identity, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_handler"), NGX_HTTP_MAIN_CONF | NGX_CONF_2MORE, set_handler, NGX_HTTP_MAIN_CONF_OFFSET, 0, nullptr},
    {ngx_string("durable_emit"), kAnywhere | NGX_CONF_TAKE2, set_emit, NGX_HTTP_LOC_CONF_OFFSET, 0, nullptr},
    ngx_null_command};

}  // namespace durable
