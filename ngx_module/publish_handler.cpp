// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/publish_handler.h"

#include "core/channel.h"
#include "core/text_rules.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/publishing.h"
#include "ngx_module/request_body.h"
#include "ngx_module/response.h"
#include "ngx_module/worker.h"

namespace durable {

namespace {

ngx_int_t publish_body(ngx_http_request_t* r) {
    LocationSettings& location = *location_settings(r);
    std::string_view key, channel, text;
    std::string event, storage;
    if (!evaluate(r, &location.object->key, key) || !evaluate(r, location.publish, channel)) return NGX_ERROR;
    if (check_object_key(key) != ErrorCode::ok) return send_error(r, ErrorCode::invalid_object);
    if (const ErrorCode error = check_channel_name(channel); error != ErrorCode::ok) return send_error(r, error, channel);
    if (const ErrorCode error = read_event_type(r, event); error != ErrorCode::ok) return send_error(r, error);
    if (body_size(r) > kMaxText) return send_error(r, ErrorCode::channel_text_too_large);
    if (!body_text(r, storage, text)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (const ErrorCode error = check_published_text(text); error != ErrorCode::ok) return send_error(r, error);
    Worker* worker = Worker::of(*main_settings(r));
    if (worker == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    WorkerZone& zone = worker->zone(location.object->zone());
    if (!zone.claim()) return send_error(r, ErrorCode::no_memory);
    const HistoryRule history = history_rule(location, *worker);
    PublishResult result;
    {
        ZoneAccess access(zone);
        result = publish(access, key, channel, event, text, history, unix_ms());
    }
    if (result.outcome != ChannelOutcome::ok) {
        const ErrorCode error = error_of(result.outcome);
        return send_error(r, error, limit_detail(error, zone.zone().limits));
    }
    return send_json(r, NGX_HTTP_OK, publish_answer(result));
}

void on_body_read(ngx_http_request_t* r) noexcept {
    ngx_http_finalize_request(r, guarded(r->connection->log, "publishing", [r] { return publish_body(r); }));
}

}  // namespace

ngx_int_t on_publish_request(ngx_http_request_t* r) noexcept {
    if (r->method != NGX_HTTP_POST && r->method != NGX_HTTP_PUT) return send_method_not_allowed(r, "POST, PUT");
    // Nothing is read of a body that is known to be too large.
    if (r->headers_in.content_length_n > static_cast<off_t>(kMaxText)) {
        return send_error(r, ErrorCode::channel_text_too_large);
    }
    r->request_body_in_single_buf = 1;
    const ngx_int_t rc = ngx_http_read_client_request_body(r, on_body_read);
    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}

}  // namespace durable
