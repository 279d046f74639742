// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/event_headers.h"

#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"

namespace durable {

namespace {

constexpr std::string_view kOwnNames[] = {"durable-event", "durable-event-kind", "durable-object", "durable-operation"};

}  // namespace

bool is_own_name(const ngx_str_t& name) noexcept {
    if (name.len < 13 || (name.data[0] | 0x20) != 'd') return false;
    for (const std::string_view own : kOwnNames) {
        if (name.len != own.size()) continue;
        std::size_t i = 0;
        while (i < own.size() && (own[i] == '-' ? name.data[i] == '-' || name.data[i] == '_'
                                                : (name.data[i] | 0x20) == own[i])) {
            ++i;
        }
        if (i == own.size()) return true;
    }
    return false;
}

// nginx keeps pointers to single headers, which stay valid: the old list's elements are copied, not
// moved. A subrequest shares its parent's list, so it is never changed in place.
bool remove_event_headers(ngx_http_request_t* r, std::string_view& token) noexcept {
    ngx_uint_t found = 0;
    for_each_header(r->headers_in.headers, [&](const ngx_table_elt_t& header) {
        if (!is_own_name(header.key)) return;
        ++found;
        if (token.empty() && header.key.len == kOwnNames[0].size()) token = view(header.value);
    });
    return found == 0 || keep_request_headers(r, [](const ngx_table_elt_t& header) { return !is_own_name(header.key); });
}

bool keep_request_headers(ngx_http_request_t* r, bool (*is_kept)(const ngx_table_elt_t&)) noexcept {
    ngx_list_t kept;
    if (ngx_list_init(&kept, r->pool, 20, sizeof(ngx_table_elt_t)) != NGX_OK) return false;
    bool is_complete = true;
    for_each_header(r->headers_in.headers, [&](const ngx_table_elt_t& header) {
        if (!is_kept(header)) return;
        auto* copy = static_cast<ngx_table_elt_t*>(ngx_list_push(&kept));
        if (copy == nullptr) {
            is_complete = false;
        } else {
            *copy = header;
        }
    });
    if (!is_complete) return false;
    r->headers_in.headers = kept;
    // A list with one part only keeps its own end.
    if (kept.last == &kept.part) r->headers_in.headers.last = &r->headers_in.headers.part;
    return true;
}

bool add_request_header(ngx_http_request_t* r, std::string_view name, std::string_view value) noexcept {
    auto* header = static_cast<ngx_table_elt_t*>(ngx_list_push(&r->headers_in.headers));
    auto* lowercase = static_cast<u_char*>(ngx_pnalloc(r->pool, name.size()));
    if (header == nullptr || lowercase == nullptr) return false;
    ngx_memzero(header, sizeof *header);
    header->key = to_ngx(name);
    header->value = to_ngx(value);
    header->lowcase_key = lowercase;
    header->hash = ngx_hash_strlow(lowercase, header->key.data, name.size());
    return true;
}

bool add_event_headers(ngx_http_request_t* r, std::string_view token, EventKind kind, std::string_view key) noexcept {
    // A key may hold any byte; a line break must not make a header of its own.
    bool is_plain = true;
    for (const unsigned char c : key) is_plain &= c >= 0x20 && c != 0x7f;
    if (!is_plain) {
        auto* safe = static_cast<u_char*>(ngx_pnalloc(r->pool, key.size() * 3));
        if (safe == nullptr) return false;
        u_char* at = safe;
        for (const unsigned char c : key) {
            if (c >= 0x20 && c != 0x7f) {
                *at++ = c;
            } else {
                at = ngx_sprintf(at, "%%%02Xd", c);
            }
        }
        key = {reinterpret_cast<char*>(safe), static_cast<std::size_t>(at - safe)};
    }
    return add_request_header(r, "Durable-Event", token) &&
           add_request_header(r, "Durable-Event-Kind", kind == EventKind::fetch ? "fetch" : "durable-block") &&
           add_request_header(r, "Durable-Object", key);
}

}  // namespace durable
