// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/request_body.h"

namespace durable {

namespace {

bool append_file(std::string& out, const ngx_buf_t& buffer) {
    const std::size_t at = out.size();
    const auto size = static_cast<std::size_t>(buffer.file_last - buffer.file_pos);
    out.resize(at + size);
    return ngx_read_file(buffer.file, reinterpret_cast<u_char*>(&out[at]), size, buffer.file_pos) ==
           static_cast<ssize_t>(size);
}

}  // namespace

std::size_t body_size(const ngx_http_request_t* r) noexcept {
    std::size_t size = 0;
    if (r->request_body == nullptr) return 0;
    for (const ngx_chain_t* cl = r->request_body->bufs; cl != nullptr; cl = cl->next) {
        size += static_cast<std::size_t>(ngx_buf_size(cl->buf));
    }
    return size;
}

bool body_text(ngx_http_request_t* r, std::string& storage, std::string_view& text) {
    text = {};
    if (r->request_body == nullptr || r->request_body->bufs == nullptr) return true;
    const ngx_chain_t* first = r->request_body->bufs;
    if (first->next == nullptr && ngx_buf_in_memory(first->buf)) {
        text = {reinterpret_cast<char*>(first->buf->pos), static_cast<std::size_t>(first->buf->last - first->buf->pos)};
        return true;
    }
    storage.clear();
    storage.reserve(body_size(r));
    for (const ngx_chain_t* cl = first; cl != nullptr; cl = cl->next) {
        if (ngx_buf_in_memory(cl->buf)) {
            storage.append(reinterpret_cast<char*>(cl->buf->pos), static_cast<std::size_t>(cl->buf->last - cl->buf->pos));
        } else if (cl->buf->in_file && !append_file(storage, *cl->buf)) {  // an empty body's buffer is neither
            return false;
        }
    }
    text = storage;
    return true;
}

}  // namespace durable
