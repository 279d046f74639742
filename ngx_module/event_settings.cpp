// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/event_settings.h"

#include <grp.h>

#include <algorithm>

namespace durable {

namespace {

constexpr int kMaxGroups = 256;

// The rights of the workers' user, for as long as this lives; only root can and need take them.
class WorkerRights {
public:
    explicit WorkerRights(const ngx_core_conf_t& core) noexcept {
        const bool has_other_user = core.master && core.user != 0 && core.username != nullptr;
        if (geteuid() != 0 || !has_other_user) return;
        group_count_ = getgroups(kMaxGroups, groups_);
        group_ = getegid();
        is_taken_ = group_count_ >= 0 && initgroups(core.username, core.group) == 0 && setegid(core.group) == 0 &&
                    seteuid(core.user) == 0;
        if (!is_taken_) give_back();
    }
    ~WorkerRights() {
        if (is_taken_) give_back();
    }
    WorkerRights(const WorkerRights&) = delete;

private:
    void give_back() noexcept {
        if (seteuid(0) != 0 || setegid(group_) != 0) return;
        if (group_count_ >= 0 && setgroups(static_cast<size_t>(group_count_), groups_) != 0) return;
    }

    gid_t groups_[kMaxGroups];
    gid_t group_ = 0;
    int group_count_ = -1;
    bool is_taken_ = false;
};

}  // namespace

ngx_int_t check_event_settings(ngx_conf_t* cf, MainSettings& main) noexcept {
    if (main.store == nullptr) return NGX_OK;
    if (main.zones.nelts == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"durable_store\" needs a \"durable_zone\", which keeps its budgets");
        return NGX_ERROR;
    }
    auto* const* zones = static_cast<ZoneSettings**>(main.zones.elts);
    if (main.store->shm_zone == nullptr) main.store->shm_zone = zones[0]->shm_zone;
    for (ngx_uint_t i = 0; i < main.zones.nelts; ++i) {
        if (zones[i]->shm_zone == main.store->shm_zone) zones[i]->store = main.store;
    }
    return NGX_OK;
}

ngx_int_t check_store_folder(const StoreOptions& store, ngx_log_t* log) noexcept {
    const auto& core = *reinterpret_cast<ngx_core_conf_t*>(ngx_get_conf(store.cycle->conf_ctx, ngx_core_module));
    const std::string_view path = view(store.path);
    char folder[NGX_MAX_PATH];
    const std::size_t size = std::max<std::size_t>(path.rfind('/'), 1);
    if (size >= sizeof folder) {
        ngx_log_error(NGX_LOG_EMERG, log, 0, "\"durable_store\" \"%V\": the path is too long", &store.path);
        return NGX_ERROR;
    }
    ngx_memcpy(folder, path.data(), size);
    folder[size] = '\0';
    int error = 0;
    struct stat about {};
    {
        const WorkerRights rights(core);
        if (stat(folder, &about) != 0) {
            error = errno;
        } else if (!S_ISDIR(about.st_mode)) {
            error = ENOTDIR;
        } else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0) {
            error = errno;
        }
    }
    if (error == 0) return NGX_OK;
    ngx_log_error(NGX_LOG_EMERG, log, error,
                  "\"durable_store\" \"%V\": its folder \"%s\" must exist and be writable for the workers' user",
                  &store.path, folder);
    return NGX_ERROR;
}

}  // namespace durable
