// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/settings.h"

#include "ngx_module/event_settings.h"

namespace durable {

void* create_main_settings(ngx_conf_t* cf) noexcept {
    auto* conf = static_cast<MainSettings*>(ngx_pcalloc(cf->pool, sizeof(MainSettings)));
    if (conf == nullptr || ngx_array_init(&conf->zones, cf->pool, 2, sizeof(ZoneSettings*)) != NGX_OK ||
        ngx_array_init(&conf->zone_uses, cf->pool, 4, sizeof(ZoneUse)) != NGX_OK ||
        ngx_array_init(&conf->handlers, cf->pool, 4, sizeof(HandlerOptions)) != NGX_OK) {
        return nullptr;
    }
    return conf;
}

void* create_location_settings(ngx_conf_t* cf) noexcept {
    auto* conf = static_cast<LocationSettings*>(ngx_pcalloc(cf->pool, sizeof(LocationSettings)));
    if (conf == nullptr) return nullptr;
    conf->object = static_cast<ObjectSettings*>(NGX_CONF_UNSET_PTR);
    conf->exclusive = static_cast<ObjectSettings*>(NGX_CONF_UNSET_PTR);
    conf->history = static_cast<HistorySettings*>(NGX_CONF_UNSET_PTR);
    conf->identity = static_cast<IdentityOptions*>(NGX_CONF_UNSET_PTR);
    conf->emit = static_cast<EmitOptions*>(NGX_CONF_UNSET_PTR);
    conf->event_timeout = NGX_CONF_UNSET_MSEC;
    conf->ping = NGX_CONF_UNSET_MSEC;
    conf->retry = NGX_CONF_UNSET_MSEC;
    conf->exclusive_timeout = NGX_CONF_UNSET_MSEC;
    conf->stream_buffer = NGX_CONF_UNSET_SIZE;
    conf->subscribe_format = NGX_CONF_UNSET_UINT;
    conf->subscribe_from = NGX_CONF_UNSET_UINT;
    return conf;
}

namespace {

// Bodies of host calls: the largest fit, and a text stays in memory. nginx's own module has been
// merged before this one.
void raise_body_limits(ngx_conf_t* cf) noexcept {
    auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    constexpr off_t kBody = 9 * 1024 * 1024;
    constexpr size_t kBuffer = 72 * 1024;
    if (core.client_max_body_size != 0 && core.client_max_body_size < kBody) core.client_max_body_size = kBody;
    if (core.client_body_buffer_size < kBuffer) core.client_body_buffer_size = kBuffer;
}

// Every answer there is JSON (E-5), but an `error_page` makes a request go elsewhere.
void drop_error_pages(ngx_conf_t* cf) noexcept {
    auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    core.error_pages = nullptr;
}

// The blocks of `if` and `limit_except` are locations of their own, which have the handler of the one
// around them unless they set another.
void inherit_content(ngx_conf_t* cf, const LocationSettings& prev, LocationSettings& conf) noexcept {
    auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (!core.noname || core.handler != nullptr || prev.content == ContentHandler::none) return;
    conf.content = prev.content;
    conf.content_directive = prev.content_directive;
    core.handler = conf.content_handler = prev.content_handler;
    conf.publish = prev.publish;
    conf.subscribe = prev.subscribe;
    conf.events = prev.events;
}

// A handler of nginx's own that comes behind ours has replaced it without a word.
bool keeps_its_handler(ngx_conf_t* cf, const LocationSettings& conf) noexcept {
    const auto& core = *static_cast<ngx_http_core_loc_conf_t*>(ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module));
    if (conf.content == ContentHandler::none || core.handler == conf.content_handler) return true;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\": this location has another content handler too",
                       &conf.content_directive);
    return false;
}

}  // namespace

char* merge_location_settings(ngx_conf_t* cf, void* parent, void* child) noexcept {
    const auto& prev = *static_cast<LocationSettings*>(parent);
    auto& conf = *static_cast<LocationSettings*>(child);
    ngx_conf_merge_ptr_value(conf.object, prev.object, nullptr);
    ngx_conf_merge_ptr_value(conf.exclusive, prev.exclusive, nullptr);
    ngx_conf_merge_ptr_value(conf.history, prev.history, nullptr);
    ngx_conf_merge_ptr_value(conf.identity, prev.identity, nullptr);
    ngx_conf_merge_ptr_value(conf.emit, prev.emit, nullptr);
    ngx_conf_merge_msec_value(conf.event_timeout, prev.event_timeout, 15 * 60 * 1000);
    ngx_conf_merge_msec_value(conf.ping, prev.ping, 15 * 1000);
    ngx_conf_merge_msec_value(conf.retry, prev.retry, NGX_CONF_UNSET_MSEC);
    ngx_conf_merge_msec_value(conf.exclusive_timeout, prev.exclusive_timeout, 25 * 1000);
    ngx_conf_merge_size_value(conf.stream_buffer, prev.stream_buffer, 64 * 1024);
    ngx_conf_merge_uint_value(conf.subscribe_format, prev.subscribe_format, kFormatText);
    ngx_conf_merge_uint_value(conf.subscribe_from, prev.subscribe_from, kFromNewest);
    ngx_conf_merge_str_value(conf.exclusive_handler, prev.exclusive_handler, "");
    inherit_content(cf, prev, conf);
    if (!keeps_its_handler(cf, conf)) return static_cast<char*>(NGX_CONF_ERROR);
    if (conf.content == ContentHandler::api) raise_body_limits(cf);
    if (conf.content == ContentHandler::events) drop_error_pages(cf);
    const bool needs_object = conf.content == ContentHandler::publish || conf.content == ContentHandler::subscribe;
    if (needs_object && conf.object == nullptr) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" needs a \"durable_object\" here or on a level above",
                           &conf.content_directive);
        return static_cast<char*>(NGX_CONF_ERROR);
    }
    return NGX_CONF_OK;
}

namespace {

const ngx_shm_zone_t* find_zone(const ngx_cycle_t* cycle, const ngx_shm_zone_t& like) noexcept {
    const ngx_list_part_t* part = &cycle->shared_memory.part;
    for (; part != nullptr; part = part->next) {
        const auto* zones = static_cast<ngx_shm_zone_t*>(part->elts);
        for (ngx_uint_t i = 0; i < part->nelts; ++i) {
            if (zones[i].tag == like.tag && view(zones[i].shm.name) == view(like.shm.name)) return &zones[i];
        }
    }
    return nullptr;
}

// Without a master the process that reloads is the one that serves: a zone that went would be
// unmapped under its open streams.
ngx_int_t check_single_process_reload(ngx_conf_t* cf) noexcept {
    if (ngx_process != NGX_PROCESS_SINGLE || ngx_cycle == nullptr) return NGX_OK;
    auto* old = const_cast<ngx_cycle_t*>(ngx_cycle);
    const ngx_list_part_t* part = &old->shared_memory.part;
    for (; part != nullptr; part = part->next) {
        auto* zones = static_cast<ngx_shm_zone_t*>(part->elts);
        for (ngx_uint_t i = 0; i < part->nelts; ++i) {
            if (zones[i].tag != &ngx_http_durable_module) continue;
            const ngx_shm_zone_t* now = find_zone(cf->cycle, zones[i]);
            if (now != nullptr && now->shm.size == zones[i].shm.size) continue;
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"durable_zone\" \"%V\" cannot be resized or removed by a reload with "
                               "\"master_process off\": restart nginx", &zones[i].shm.name);
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}

}  // namespace

ngx_int_t check_settings(ngx_conf_t* cf) noexcept {
    auto& conf = *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
    const auto* uses = static_cast<ZoneUse*>(conf.zone_uses.elts);
    for (ngx_uint_t i = 0; i < conf.zone_uses.nelts; ++i) {
        if (uses[i].shm_zone->data != nullptr) continue;
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" names the unknown \"durable_zone\" \"%V\"",
                           &uses[i].directive, &uses[i].shm_zone->shm.name);
        return NGX_ERROR;
    }
    if (check_event_settings(cf, conf) != NGX_OK) return NGX_ERROR;
    return check_single_process_reload(cf);
}

}  // namespace durable
