// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/settings.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

ngx_int_t on_postconfiguration(ngx_conf_t* cf) noexcept { return check_settings(cf); }

// Without an http block there are no settings.
MainSettings* settings_of(ngx_cycle_t* cycle) noexcept {
    if (ngx_get_conf(cycle->conf_ctx, ngx_http_module) == nullptr) return nullptr;
    return static_cast<MainSettings*>(ngx_http_cycle_get_module_main_conf(cycle, ngx_http_durable_module));
}

void on_worker_exit(ngx_cycle_t* cycle) noexcept {
    if (MainSettings* settings = settings_of(cycle)) Worker::leave(*settings);
}

ngx_http_module_t module_context = {
    nullptr,                   // preconfiguration
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
    nullptr,  // init process: the worker's part is made at its first use
    nullptr,  // init thread
    nullptr,  // exit thread
    durable::on_worker_exit,
    nullptr,  // exit master
    NGX_MODULE_V1_PADDING,
};

}
