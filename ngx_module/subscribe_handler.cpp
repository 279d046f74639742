// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/subscribe_handler.h"

#include <algorithm>

#include "core/sse_frame.h"
#include "core/text_rules.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"
#include "ngx_module/publishing.h"
#include "ngx_module/reader_group.h"
#include "ngx_module/response.h"
#include "ngx_module/subscribed_stream.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

// The channels named, each once, in an order of its own so that streams of the same ones share a group.
ErrorCode read_channels(ngx_http_request_t* r, ngx_array_t& values, std::vector<std::string>& channels,
                        std::string& wrong) {
    auto* value = static_cast<ngx_http_complex_value_t*>(values.elts);
    for (ngx_uint_t i = 0; i < values.nelts; ++i) {
        std::string_view name;
        if (!evaluate(r, &value[i], name)) return ErrorCode::no_memory;
        if (const ErrorCode error = check_channel_name(name); error != ErrorCode::ok) {
            wrong = name;
            return error;
        }
        channels.emplace_back(name);
    }
    std::sort(channels.begin(), channels.end());
    channels.erase(std::unique(channels.begin(), channels.end()), channels.end());
    return ErrorCode::ok;
}

// The `Last-Event-ID` header wins over the argument; an empty one says nothing.
ErrorCode read_origin(ngx_http_request_t* r, const LocationSettings& location, StreamOrigin& origin) {
    origin.from_oldest = location.subscribe_from == kFromOldest;
    const ngx_table_elt_t* header = find_header(r, "last-event-id");
    if (header != nullptr && header->value.len != 0) {
        origin.asked = view(header->value);
        return ErrorCode::ok;
    }
    std::string asked;
    bool is_present;
    const ErrorCode error = read_argument(r, "last_event_id", asked, is_present);
    if (error != ErrorCode::ok || asked.empty()) return error;
    if (asked == "oldest") {
        origin.from_oldest = true;
    } else {
        origin.asked = std::move(asked);
    }
    return error;
}

ngx_int_t subscribe(ngx_http_request_t* r) {
    LocationSettings& location = *location_settings(r);
    std::string_view key;
    if (!evaluate(r, &location.object->key, key)) return NGX_ERROR;
    if (check_object_key(key) != ErrorCode::ok) return send_error(r, ErrorCode::invalid_object);
    std::vector<std::string> channels;
    std::string wrong;
    if (const ErrorCode error = read_channels(r, *location.subscribe, channels, wrong); error != ErrorCode::ok) {
        return send_error(r, error, wrong);
    }
    StreamOrigin origin;
    if (const ErrorCode error = read_origin(r, location, origin); error != ErrorCode::ok) return send_error(r, error);
    const ngx_int_t discarded = ngx_http_discard_request_body(r);
    if (discarded != NGX_OK) return discarded;
    if (r->method == NGX_HTTP_HEAD) {
        r->header_only = 1;
        return send_event_stream_head(r);
    }
    Worker* worker = Worker::of(*main_settings(r));
    if (worker == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    WorkerZone& zone = worker->zone(location.object->zone());
    if (!zone.claim()) return send_error(r, ErrorCode::no_memory);

    RequestContext* context = RequestContext::find(r);
    if (context == nullptr) context = RequestContext::create(r);
    auto* stream = create_in_pool<SubscribedStream>(r->pool, r, location);
    if (context == nullptr || stream == nullptr) return NGX_ERROR;
    context->subscribed = stream;
    std::string first;
    const ErrorCode error = zone.groups().join(*stream, key, channels, location.subscribe_format, origin, first);
    if (error != ErrorCode::ok) return send_error(r, error, limit_detail(error, zone.zone().limits));

    const ngx_int_t rc = send_event_stream_head(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        stream->detach();
        return rc;
    }
    std::string head;
    if (location.retry != NGX_CONF_UNSET_MSEC) append_retry(head, location.retry);
    append_comment(head, "");
    first.insert(0, head);
    ++r->main->count;
    stream->start(first);
    return NGX_DONE;
}

}  // namespace

ngx_int_t on_subscribe_request(ngx_http_request_t* r) noexcept {
    if (r != r->main) {
        log_line(NGX_LOG_ERR, r->connection->log, "\"durable_subscribe\" does not answer subrequests");
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (r->method != NGX_HTTP_GET && r->method != NGX_HTTP_HEAD) return send_method_not_allowed(r, "GET, HEAD");
    return guarded(r->connection->log, "subscribing", [r] { return subscribe(r); });
}

}  // namespace durable
