// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/events_handler.h"

#include "core/event_documents.h"
#include "core/text_rules.h"
#include "ngx_module/event_store.h"
#include "ngx_module/events_stream.h"
#include "ngx_module/log.h"
#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"
#include "ngx_module/request_body.h"
#include "ngx_module/response.h"

namespace durable {

namespace {

// A context of 4096 bytes and a subject of 4096 characters, each escaped, and room for spaces.
constexpr std::size_t kMaxBody = 262144;

// One call that waits for the store.
class EventsCall final : public StoreClient {
public:
    explicit EventsCall(ngx_http_request_t* r) noexcept : request_(r) {}

    // The client may leave meanwhile, which ends the request; what was asked for is done all the same.
    void park() noexcept {
        ngx_connection_t* c = request_->connection;
        request_->read_event_handler = ngx_http_test_reading;
        request_->write_event_handler = ngx_http_request_empty_handler;
        if (c->read->pending_eof) { ngx_post_event(c->read, &ngx_posted_events); }
    }

    void on_store_answer(ngx_uint_t status, std::string&& body) noexcept override {
        ngx_http_request_t* r = request_;
        ngx_connection_t* c = r->connection;
        ngx_http_set_log_request(c->log, r);
        ngx_http_finalize_request(r, send_json(r, status, body));
        ngx_http_run_posted_requests(c);
    }

private:
    ngx_http_request_t* request_;
};

// ---- the calls ----

using MakeJob = Job (*)(ngx_http_request_t* r, const EventsOptions& options, Caller caller, std::string body);

struct EventsRow {
    std::string_view path;
    ngx_uint_t method;
    std::optional<CallBudget> budget;
    MakeJob make_job;  // nullptr: the stream
};

constexpr EventsRow kRows[] = {
    {"subscribe", NGX_HTTP_POST, CallBudget::change,
     [](ngx_http_request_t*, const EventsOptions& options, Caller caller, std::string body) -> Job {
         return SubscribeJob{std::move(caller), {options.account_rows, options.app_rows}, std::move(body)};
     }},
    {"unsubscribe", NGX_HTTP_POST, CallBudget::change,
     [](ngx_http_request_t*, const EventsOptions&, Caller caller, std::string body) -> Job {
         return UnsubscribeJob{std::move(caller), std::move(body)};
     }},
    {"subscriptions", NGX_HTTP_GET, CallBudget::list,
     [](ngx_http_request_t* r, const EventsOptions&, Caller caller, std::string) -> Job {
         return ListJob{std::move(caller), std::string(view(r->args))};
     }},
    {"fetch", NGX_HTTP_GET, CallBudget::fetch,
     [](ngx_http_request_t* r, const EventsOptions&, Caller caller, std::string) -> Job {
         return FetchJob{std::move(caller), std::string(view(r->args))};
     }},
    {"ack", NGX_HTTP_POST, std::nullopt,
     [](ngx_http_request_t*, const EventsOptions&, Caller caller, std::string body) -> Job {
         return AckJob{std::move(caller), std::move(body)};
     }},
    {"stream", NGX_HTTP_GET, std::nullopt, nullptr},
};

const EventsRow* find_row(ngx_http_request_t* r) noexcept {
    const std::string_view path = call_path(r).text;
    for (const EventsRow& row : kRows) {
        if (row.path == path) return &row;
    }
    return nullptr;
}

ngx_int_t refuse_method(ngx_http_request_t* r, const EventsRow& row) noexcept {
    const bool has_options = location_settings(r)->events->origins.nelts != 0;
    if (row.method == NGX_HTTP_GET) return send_method_not_allowed(r, has_options ? "GET, HEAD, OPTIONS" : "GET, HEAD");
    return send_method_not_allowed(r, has_options ? "POST, OPTIONS" : "POST");
}

// E-24
ErrorCode charge(EventStore& store, const EventsRow& row, const Caller& caller, std::optional<BudgetCharge>& charged) {
    if (!row.budget) return ErrorCode::ok;
    switch (store.charge(caller.account, *row.budget, charged)) {
        case BudgetOutcome::accepted: return ErrorCode::ok;
        case BudgetOutcome::exceeded: return ErrorCode::too_many_requests;
        case BudgetOutcome::no_memory: break;
    }
    return ErrorCode::no_memory;
}

// Returns what to finalize the request with; NGX_DONE: it is answered later.
ngx_int_t make_call(ngx_http_request_t* r) {
    const EventsRow& row = *find_row(r);
    std::optional<Caller> caller;
    if (!identify_caller(r, caller)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (!caller) return send_error(r, ErrorCode::token_missing);
    if (!is_valid_utf8(caller->account) || !is_valid_utf8(caller->app.value_or(""))) {
        return send_error(r, ErrorCode::bad_request, "the caller's name is not UTF-8");
    }
    EventStore* store = EventStore::of(*main_settings(r));
    if (store == nullptr) return send_error(r, ErrorCode::store_failed, "it could not be started");
    if (row.make_job == nullptr) return open_events_stream(r, *store, std::move(*caller));
    if (body_size(r) > kMaxBody) return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    std::string storage;
    std::string_view body;
    if (!body_text(r, storage, body)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    std::optional<BudgetCharge> charged;
    auto* call = create_in_pool<EventsCall>(r->pool, r);
    if (call == nullptr) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (const ErrorCode error = charge(*store, row, *caller, charged); error != ErrorCode::ok)
        return send_error(r, error);
    store->submit(row.make_job(r, *location_settings(r)->events, std::move(*caller), std::string(body)), *call,
                  charged);
    call->park();
    return NGX_DONE;
}

void on_body_read(ngx_http_request_t* r) noexcept {
    const ngx_int_t rc = guarded(r->connection->log, "an events call", [r] { return make_call(r); });
    if (rc != NGX_DONE) ngx_http_finalize_request(r, rc);
}

ngx_int_t begin_call(ngx_http_request_t* r) {
    if (main_settings(r)->store == nullptr) return send_error(r, ErrorCode::events_disabled);
    const EventsRow* row = find_row(r);
    if (row == nullptr) return send_error(r, ErrorCode::not_found, view(r->uri));
    const bool is_head = row->method == NGX_HTTP_GET && r->method == NGX_HTTP_HEAD;
    if (r->method != row->method && !is_head) return refuse_method(r, *row);
    // Nothing is read of a body that is known to be too large.
    if (r->headers_in.content_length_n > static_cast<off_t>(kMaxBody)) return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    r->request_body_in_single_buf = 1;
    const ngx_int_t rc = ngx_http_read_client_request_body(r, on_body_read);
    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}

// ---- other origins ----

ngx_http_output_header_filter_pt next_header_filter;

const ngx_str_t* find_origin(ngx_http_request_t* r, const EventsOptions& events) noexcept {
    const ngx_table_elt_t* header = find_header(r, "origin");
    if (header == nullptr) return nullptr;
    const auto* origins = static_cast<ngx_str_t*>(events.origins.elts);
    for (ngx_uint_t i = 0; i < events.origins.nelts; ++i) {
        if (view(origins[i]) == view(header->value)) return &origins[i];
    }
    return nullptr;
}

ngx_int_t on_header(ngx_http_request_t* r) noexcept {
    const LocationSettings& location = *location_settings(r);
    if (r != r->main || location.content != ContentHandler::events || location.events->origins.nelts == 0) {
        return next_header_filter(r);
    }
    if (!add_header(r, "Vary", "Origin")) return NGX_ERROR;
    const ngx_str_t* origin = find_origin(r, *location.events);
    if (origin == nullptr) return next_header_filter(r);
    if (!add_header(r, "Access-Control-Allow-Origin", view(*origin)) ||
        !add_header(r, "Access-Control-Allow-Credentials", "true")) {
        return NGX_ERROR;
    }
    if (r->method == NGX_HTTP_OPTIONS &&
        (!add_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS") ||
         !add_header(r, "Access-Control-Allow-Headers", "Content-Type, Authorization, Last-Event-ID") ||
         !add_header(r, "Access-Control-Max-Age", "600"))) {
        return NGX_ERROR;
    }
    return next_header_filter(r);
}

}  // namespace

bool identify_caller(ngx_http_request_t* r, std::optional<Caller>& caller) {
    const IdentityOptions* identity = location_settings(r)->identity;
    caller.reset();
    if (identity == nullptr) return true;
    std::string_view account, app;
    if (!evaluate(r, const_cast<ngx_http_complex_value_t*>(&identity->account), account)) return false;
    if (identity->app != nullptr && !evaluate(r, identity->app, app)) return false;
    if (account.empty()) return true;
    caller.emplace();
    caller->account = account;
    if (!app.empty()) caller->app = app;
    return true;
}

ngx_int_t on_preflight_phase(ngx_http_request_t* r) noexcept {
    const LocationSettings& location = *location_settings(r);
    const bool is_preflight = r == r->main && r->method == NGX_HTTP_OPTIONS &&
                              location.content == ContentHandler::events && location.events->origins.nelts != 0;
    if (!is_preflight) return NGX_DECLINED;
    ngx_http_finalize_request(r, send_json(r, NGX_HTTP_OK, "{}"));
    return NGX_DONE;
}

ngx_int_t on_events_request(ngx_http_request_t* r) noexcept {
    if (r != r->main) return NGX_HTTP_FORBIDDEN;
    return guarded(r->connection->log, "an events call", [r] { return begin_call(r); });
}

void install_cross_origin_filter() noexcept {
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = on_header;
}

}  // namespace durable
