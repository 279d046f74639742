// SPDX-License-Identifier: BSD-2-Clause
// A request's body as text, wherever nginx has put it: memory, several buffers, or a file.
#pragma once

#include "ngx_module/nginx.h"

namespace durable {

// The body's size in bytes, once it has been read.
[[nodiscard]] std::size_t body_size(const ngx_http_request_t* r) noexcept;

// The body; `storage` holds it where it is not in one piece. Nothing when its file cannot be read.
[[nodiscard]] bool body_text(ngx_http_request_t* r, std::string& storage, std::string_view& text);

}  // namespace durable
