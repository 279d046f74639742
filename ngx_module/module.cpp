// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/emit.h"
#include "ngx_module/event_store.h"
#include "ngx_module/events_handler.h"
#include "ngx_module/filters.h"
#include "ngx_module/gate_phase.h"
#include "ngx_module/json_errors.h"
#include "ngx_module/settings.h"
#include "ngx_module/variables.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

ngx_int_t add_phase_handler(ngx_conf_t* cf, ngx_http_phases phase, ngx_http_handler_pt handler) noexcept {
    auto& core = *static_cast<ngx_http_core_main_conf_t*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module));
    auto* place = static_cast<ngx_http_handler_pt*>(ngx_array_push(&core.phases[phase].handlers));
    if (place == nullptr) return NGX_ERROR;
    *place = handler;
    return NGX_OK;
}

ngx_int_t on_preconfiguration(ngx_conf_t* cf) noexcept { return add_variables(cf); }

ngx_int_t on_postconfiguration(ngx_conf_t* cf) noexcept {
    const auto& settings =
        *static_cast<MainSettings*>(ngx_http_conf_get_module_main_conf(cf, ngx_http_durable_module));
    if (check_settings(cf) != NGX_OK) return NGX_ERROR;
    if (settings.has_events) {
        install_cross_origin_filter();
        if (add_phase_handler(cf, NGX_HTTP_PREACCESS_PHASE, on_preflight_phase) != NGX_OK) return NGX_ERROR;
    }
    if (settings.has_emit && settings.store != nullptr && add_phase_handler(cf, NGX_HTTP_LOG_PHASE, on_log_phase) != NGX_OK) {
        return NGX_ERROR;
    }
    if (settings.zones.nelts == 0 && !settings.has_events) return NGX_OK;  // nothing of the module is used
    if (add_phase_handler(cf, NGX_HTTP_PREACCESS_PHASE, on_preaccess_phase) != NGX_OK ||
        add_phase_handler(cf, NGX_HTTP_PRECONTENT_PHASE, on_precontent_phase) != NGX_OK) {
        return NGX_ERROR;
    }
    install_json_errors();
    install_filters();
    return NGX_OK;
}

// Without an http block there are no settings.
MainSettings* settings_of(ngx_cycle_t* cycle) noexcept {
    if (ngx_get_conf(cycle->conf_ctx, ngx_http_module) == nullptr) return nullptr;
    return static_cast<MainSettings*>(ngx_http_cycle_get_module_main_conf(cycle, ngx_http_durable_module));
}

// Runs in nginx's cache processes too.
ngx_int_t on_worker_start(ngx_cycle_t* cycle) noexcept {
    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE) return NGX_OK;
    if (MainSettings* settings = settings_of(cycle)) EventStore::start(*settings);
    return NGX_OK;
}

void on_worker_exit(ngx_cycle_t* cycle) noexcept {
    MainSettings* settings = settings_of(cycle);
    if (settings == nullptr) return;
    EventStore::leave(*settings);
    Worker::leave(*settings);
}

ngx_http_module_t module_context = {
    on_preconfiguration,
    on_postconfiguration,
    create_main_settings,
    nullptr,                   // init main configuration
    nullptr,                   // create server configuration
    nullptr,                   // merge server configuration
    create_location_settings,
    merge_location_settings,
};

}  // namespace

}  // namespace durable

extern "C" {

ngx_module_t ngx_http_durable_module = {
    NGX_MODULE_V1,
    &durable::module_context,
    durable::durable_commands,
    NGX_HTTP_MODULE,
    nullptr,  // init master
    nullptr,  // init module
    durable::on_worker_start,  // all but the store thread is made at its first use
    nullptr,  // init thread
    nullptr,  // exit thread
    durable::on_worker_exit,
    nullptr,  // exit master
    NGX_MODULE_V1_PADDING,
};

}
