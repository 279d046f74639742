// SPDX-License-Identifier: BSD-2-Clause
// Strict validation of a JSON text that may have 8 MiB: a short one at once, a long one
// on nginx's thread pool, its file read there too; without threads in slices between other events.
#pragma once

#include "core/json_check.h"
#include "ngx_module/host_call.h"

namespace durable {

class JsonTask {
public:
    using Then = void (*)(HostCall& call, JsonTask& task);

    // Checks the call's body. `then` runs inside HostCall::resume, or before this returns. Until then
    // the request stays, even if its client leaves.
    static void check_body(HostCall& call, Then then);
    // Checks `text`.
    static void check_text(HostCall& call, std::string text, Then then);

    explicit JsonTask(HostCall& call, Then then) noexcept : call_(call), then_(then) {}

    std::string text;
    bool is_read = true;  // false: the body's file could not be
    bool is_valid = false;

private:
    // Bytes of the body, in memory or in its file.
    struct Piece {
        const u_char* start;
        std::size_t size;
        ngx_fd_t fd;
        off_t offset;
    };

    static JsonTask* create(HostCall& call, Then then);
    void check();
    void start(std::size_t size);
    void read();
    void finish() noexcept;
    static void on_thread(void* data, ngx_log_t* log) noexcept;
    static void on_done(ngx_event_t* event) noexcept;
    static void on_slice(ngx_event_t* event) noexcept;

    HostCall& call_;
    Then then_;
    std::vector<Piece> pieces_;
    std::unique_ptr<JsonCheck> slices_;
    ngx_event_t event_{};
};

}  // namespace durable
