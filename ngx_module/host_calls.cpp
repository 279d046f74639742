// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/host_calls.h"

#include "core/call_path.h"
#include "core/event_documents.h"
#include "core/text_rules.h"
#include "ngx_module/event_settings.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"
#include "ngx_module/response.h"

namespace durable {

namespace {

// 32 headers of the greatest length, each of their bytes escaped.
constexpr std::size_t kMaxStreamStart = 2097152;
constexpr ngx_uint_t kRead = NGX_HTTP_GET | NGX_HTTP_HEAD;

// A wait has no HEAD: it would take a message that nobody gets.
constexpr HostCallRow kRows[] = {
    {NGX_HTTP_POST, "channels/{}/subscriptions", CalledBy::event, subscribe_call, 0, ErrorCode::ok},
    {kRead, "channels/{}", CalledBy::event_or_object, count_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "channels/{}/messages", CalledBy::event_or_object, publish_call, kMaxText,
     ErrorCode::channel_text_too_large},
    {kRead, "channels/{}/messages", CalledBy::event_or_object, history_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "channels/{}/close", CalledBy::event_or_object, close_call, kMaxReason, ErrorCode::reason_too_large},
    {NGX_HTTP_GET, "subscriptions/{}/message", CalledBy::event, wait_call, 0, ErrorCode::ok},
    {NGX_HTTP_DELETE, "subscriptions/{}", CalledBy::event, cancel_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "exclusive/{}", CalledBy::event, exclusive_call, kMaxJsonText, ErrorCode::params_too_large},
    {kRead, "section", CalledBy::event, section_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "section/result", CalledBy::event, section_result_call, kMaxJsonText, ErrorCode::result_too_large},
    {NGX_HTTP_POST, "stream", CalledBy::event, start_stream_call, kMaxStreamStart, ErrorCode::invalid_stream_start},
    {NGX_HTTP_POST, "streams/{}/text", CalledBy::event, write_stream_call, kMaxText, ErrorCode::stream_text_too_large},
    {kRead, "streams/{}", CalledBy::event, stream_state_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "streams/{}/end", CalledBy::event, end_stream_call, 0, ErrorCode::ok},
    {NGX_HTTP_POST, "streams/{}/abort", CalledBy::event, abort_stream_call, kMaxReason, ErrorCode::reason_too_large},
    {NGX_HTTP_POST, "events", CalledBy::anyone, publish_event_call, kMaxPublishBytes, ErrorCode::event_too_large},
    {NGX_HTTP_POST, "events/suspend", CalledBy::anyone, suspend_call, kMaxPublishBytes, ErrorCode::event_too_large},
    {NGX_HTTP_POST, "events/resume", CalledBy::anyone, resume_call, kMaxPublishBytes, ErrorCode::event_too_large},
};

struct MethodName {
    ngx_uint_t method;
    std::string_view name;
};
constexpr MethodName kMethodNames[] = {
    {NGX_HTTP_GET, "GET"}, {NGX_HTTP_HEAD, "HEAD"}, {NGX_HTTP_POST, "POST"}, {NGX_HTTP_DELETE, "DELETE"}};

struct FoundCall {
    const HostCallRow* row = nullptr;
    ngx_uint_t methods = 0;  // that the path has; 0: there is no such call
    std::string_view argument;
    bool is_raw = true;
};

FoundCall find_call(ngx_http_request_t* r) noexcept {
    const CallPath path = call_path(r);
    const PathSegments segments = split_path(path.text);
    FoundCall found;
    found.is_raw = path.is_raw;
    for (const HostCallRow& row : kRows) {
        if (!matches_call(segments, row.pattern, found.argument)) continue;
        found.methods |= row.methods;
        if ((row.methods & r->method) != 0) found.row = &row;
    }
    return found;
}

ngx_int_t refuse_method(ngx_http_request_t* r, ngx_uint_t methods) {
    std::string allowed;
    for (const MethodName& one : kMethodNames) {
        if ((methods & one.method) == 0) continue;
        if (!allowed.empty()) allowed += ", ";
        allowed += one.name;
    }
    const ngx_str_t kept = copy_to_pool(r->pool, allowed);
    return kept.data == nullptr ? NGX_ERROR : send_method_not_allowed(r, view(kept));
}

// Who is calling, as far as this worker can tell without asking.
struct Identity {
    ErrorCode error = ErrorCode::unknown_event;
    WorkerZone* zone = nullptr;
    std::optional<EventToken> token;
    std::string_view location_key;
};

Identity identify_event(Worker& worker, MainSettings& main, std::string_view token_text) noexcept {
    Identity identity;
    identity.token = read_event_token(token_text);
    if (!identity.token) return identity;
    auto* const* zones = static_cast<ZoneSettings**>(main.zones.elts);
    for (ngx_uint_t i = 0; i < main.zones.nelts; ++i) {
        WorkerZone& zone = worker.zone(*zones[i]);
        if (zone.zone().id == identity.token->zone) identity.zone = &zone;
    }
    if (identity.zone != nullptr) identity.error = ErrorCode::ok;
    return identity;
}

// Without a token a call acts on its location's object, if that call may and there is one.
Identity identify_location(ngx_http_request_t* r, Worker& worker, const HostCallRow& row) noexcept {
    Identity identity;
    ObjectSettings* object = location_settings(r)->object;
    if (row.called_by == CalledBy::event || object == nullptr) return identity;
    if (!evaluate(r, &object->key, identity.location_key) || check_object_key(identity.location_key) != ErrorCode::ok) {
        identity.error = ErrorCode::invalid_object;
        return identity;
    }
    identity.zone = &worker.zone(object->zone());
    identity.error = ErrorCode::ok;
    return identity;
}

// The events API is a zone's only in so far as one keeps its budgets.
Identity identify_anyone(Worker& worker, MainSettings& main) noexcept {
    Identity identity;
    identity.error = ErrorCode::events_disabled;
    if (main.store == nullptr) return identity;
    identity.zone = &worker.zone(main.store->zone());
    identity.error = ErrorCode::ok;
    return identity;
}

void on_body_read(ngx_http_request_t* r) noexcept { HostCall::of(r)->start(); }

ngx_int_t begin_call(ngx_http_request_t* r) {
    const FoundCall found = find_call(r);
    if (found.methods == 0) return send_error(r, ErrorCode::not_found, view(r->uri));
    if (found.row == nullptr) return refuse_method(r, found.methods);
    const HostCallRow& row = *found.row;
    Worker* worker = Worker::of(*main_settings(r));
    if (worker == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    const ngx_table_elt_t* header = find_header(r, "durable-event");
    const Identity identity = row.called_by == CalledBy::anyone ? identify_anyone(*worker, *main_settings(r))
                              : header == nullptr               ? identify_location(r, *worker, row)
                                                  : identify_event(*worker, *main_settings(r), view(header->value));
    if (identity.error != ErrorCode::ok) return send_error(r, identity.error);
    // Nothing is read of a body that is known to be too large.
    if (row.max_body != 0 && r->headers_in.content_length_n > static_cast<off_t>(row.max_body)) {
        return send_error(r, row.too_large);
    }
    if (!identity.zone->claim()) return send_error(r, ErrorCode::no_memory);
    auto argument = found.is_raw ? percent_decode(found.argument) : std::string(found.argument);
    if (!argument) return send_error(r, ErrorCode::invalid_escape, found.argument);
    HostCall* call = HostCall::create(r, row, *identity.zone);
    if (call == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    call->token = identity.token;
    call->location_key = identity.location_key;
    call->argument = std::move(*argument);
    const ngx_int_t rc = ngx_http_read_client_request_body(r, on_body_read);
    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}

}  // namespace

ngx_int_t on_api_request(ngx_http_request_t* r) noexcept {
    // A subrequest would be a call that the application never made.
    if (r != r->main) return NGX_HTTP_FORBIDDEN;
    return guarded(r->connection->log, "a host call", [r] { return begin_call(r); });
}

ErrorCode too_large_error(ngx_http_request_t* r) {
    const FoundCall found = find_call(r);
    return found.row == nullptr || found.row->max_body == 0 ? ErrorCode::ok : found.row->too_large;
}

}  // namespace durable
