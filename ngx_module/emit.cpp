// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/emit.h"

#include <algorithm>

#include "ngx_module/event_store.h"
#include "ngx_module/events_handler.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"

namespace durable {

namespace {

constexpr std::string_view kFiles = "fs:";

// The path of a `Destination` header, decoded: where a MOVE or COPY that succeeded put things.
bool read_destination(ngx_http_request_t* r, std::string_view& path) noexcept {
    const ngx_table_elt_t* header = find_header(r, "destination");
    if (header == nullptr) return false;
    std::string_view text = view(header->value);
    const std::size_t scheme = text.find("://");
    if (scheme != std::string_view::npos && text.find('/') == scheme + 1) {
        text.remove_prefix(std::min(text.find('/', scheme + 3), text.size()));
    }
    if (text.empty() || text.front() != '/') return false;
    ngx_str_t uri = to_ngx(text), args;
    ngx_uint_t flags = NGX_HTTP_LOG_UNSAFE;
    if (ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK) return false;
    path = view(uri);
    return true;
}

bool ends_with(std::string_view text, std::string_view end) noexcept {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// What a MOVE or COPY is about is where it went: the request's own path is only where it came from.
void follow_destination(ngx_http_request_t* r, EmitJob& job) {
    std::string_view destination;
    const std::string_view source = view(r->uri);
    if (r->method != NGX_HTTP_MOVE && r->method != NGX_HTTP_COPY) return;
    if (job.subject.compare(0, kFiles.size(), kFiles) != 0 || !ends_with(job.subject, source)) return;
    if (!read_destination(r, destination)) return;
    if (r->method == NGX_HTTP_MOVE) job.from = job.subject.substr(kFiles.size());
    job.subject.replace(job.subject.size() - source.size(), source.size(), destination);
}

ngx_int_t emit(ngx_http_request_t* r, const EmitOptions& options) {
    std::string_view subject, op;
    if (!evaluate(r, const_cast<ngx_http_complex_value_t*>(&options.subject), subject)) return NGX_ERROR;
    if (subject.empty()) return NGX_OK;
    if (!evaluate(r, const_cast<ngx_http_complex_value_t*>(&options.op), op)) return NGX_ERROR;
    EventStore* store = EventStore::of(*main_settings(r));
    if (store == nullptr) {
        log_line(NGX_LOG_ERR, r->connection->log, "event not emitted: there is no store");
        return NGX_OK;
    }
    EmitJob job;
    job.subject = subject;
    job.op = op;
    follow_destination(r, job);
    if (location_settings(r)->identity != nullptr) {
        std::optional<Caller> caller;
        if (!identify_caller(r, caller)) return NGX_ERROR;
        // Without an account it would reach everyone.
        if (!caller) return NGX_OK;
        job.account = std::move(caller->account);
    }
    store->emit(std::move(job));
    return NGX_OK;
}

}  // namespace

ngx_int_t on_log_phase(ngx_http_request_t* r) noexcept {
    const EmitOptions* options = location_settings(r)->emit;
    const ngx_uint_t status = r->err_status != 0 ? r->err_status : r->headers_out.status;
    if (options == nullptr || r != r->main || status < 200 || status > 299) return NGX_OK;
    guarded(r->connection->log, "emitting an event", [&] { return emit(r, *options); });
    return NGX_OK;
}

}  // namespace durable
