// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/section.h"

#include <algorithm>
#include <iterator>

#include "core/event.h"
#include "core/json_text.h"
#include "core/text_rules.h"
#include "core/url_text.h"
#include "ngx_module/event_headers.h"
#include "ngx_module/object_request.h"
#include "ngx_module/pool.h"
#include "ngx_module/request_body.h"
#include "ngx_module/response.h"

namespace durable {

namespace {

// Why a handler's own answer is no result; behind `exclusive_failed`'s message.
constexpr std::string_view kBadResult = "独占区结果不是有效 JSON";
constexpr std::string_view kLargeResult = "独占区结果超过 8 MiB";

ngx_int_t on_subrequest_done(ngx_http_request_t* subrequest, void* data, ngx_int_t rc) noexcept {
    static_cast<Section*>(data)->on_handler_done(subrequest, rc);
    // An error would end the caller's request as well, and X-10's answer would never go out.
    return NGX_OK;
}

// What belongs to the call alone, and what would make the answer no JSON, is not the handler's.
bool is_for_handler(const ngx_table_elt_t& header) noexcept {
    constexpr std::string_view kDropped[] = {"content-length", "transfer-encoding", "content-type",
                                             "expect",         "connection",        "accept-encoding"};
    if (is_own_name(header.key)) return false;
    return std::none_of(std::begin(kDropped), std::end(kDropped),
                        [&](std::string_view name) { return is_named(header, name); });
}

// Of the answer, as far as its head tells; a large one is not moved as it grows.
std::size_t expected_size(const ngx_http_request_t& subrequest) noexcept {
    const off_t announced = subrequest.headers_out.content_length_n;
    return announced <= 0 || announced > static_cast<off_t>(kMaxJsonText) ? 0 : static_cast<std::size_t>(announced);
}

ngx_table_elt_t* last_header(ngx_http_request_t* r) noexcept {
    const ngx_list_part_t* part = r->headers_in.headers.last;
    return &static_cast<ngx_table_elt_t*>(part->elts)[part->nelts - 1];
}

}  // namespace

// ---- life ----

Section* Section::create(HostCall& call, std::string object_key, Rules rules) {
    return create_in_pool<Section>(call.request->pool, call, std::move(object_key), std::move(rules));
}

Section::Section(HostCall& call, std::string object_key, Rules rules) noexcept
    : call_(call), object_key_(std::move(object_key)), rules_(std::move(rules)) {
    timer_.data = done_.data = this;
    timer_.log = done_.log = call.request->connection->log;
    timer_.handler = on_timeout;
    done_.handler = on_done;
}

Section::~Section() {
    if (timer_.timer_set) ngx_del_timer(&timer_);
    if (done_.posted) { ngx_delete_posted_event(&done_); }
    end_event();
}

Section* Section::of(ngx_http_request_t* r) noexcept {
    if (r == r->main || r->post_subrequest == nullptr || r->post_subrequest->handler != on_subrequest_done)
        return nullptr;
    return static_cast<Section*>(r->post_subrequest->data);
}

void Section::start() {
    switch (enter_line(call_.zone, object_key_, LineKind::section, rules_.queue, &*call_.token)) {
        case LineOutcome::granted: return run();
        case LineOutcome::waiting: return call_.park();  // a caller that leaves gives up its place
        case LineOutcome::full: return call_.refuse(ErrorCode::exclusive_queue_full);
        case LineOutcome::event_over: return call_.refuse(ErrorCode::unknown_event);
        default: return call_.refuse(ErrorCode::no_memory);
    }
}

void Section::on_granted() noexcept {
    call_.resume([this] {
        if (end_caller_wait()) return run();
        leave_line();
        call_.refuse(ErrorCode::unknown_event);
    });
}

void Section::run() {
    if (call_.is_client_gone()) {
        let_the_next_go();
        return call_.abandon();
    }
    if (!begin_event()) {
        let_the_next_go();
        return call_.refuse(ErrorCode::no_memory);
    }
    call_.park();
    // From here on it runs to its end, whether the caller stays or not.
    call_.request->read_event_handler = ngx_http_block_reading;
    ngx_add_timer(&timer_, rules_.timeout);
    if (enter_handler() != NGX_OK) fail(ErrorCode::exclusive_failed, "the handler cannot be entered");
}

// ---- the section's event ----

bool Section::begin_event() {
    token = call_.zone.new_token();
    call_.zone.sections().add(*this);
    is_running_ = true;
    set_token(token);
    ZoneAccess access(call_.zone);
    return bind_event(access, token, EventKind::durable_block, object_key_, entry()) != nullptr;
}

void Section::end_event() noexcept {
    if (!is_running_) return;
    is_running_ = false;
    call_.zone.sections().remove(*this);
    if (timer_.timer_set) ngx_del_timer(&timer_);
    if (!call_.zone.is_claimed()) return;
    ZoneAccess access(call_.zone);
    if (EventRecord* event = find_event(access, token)) durable::end_event(access, *event);
}

void Section::let_the_next_go() noexcept {
    end_event();
    leave_line();
}

// ---- entering the application ----

ngx_int_t Section::enter_handler() {
    ngx_http_request_t* r = call_.request;
    const ngx_str_t kept = copy_to_pool(r->pool, rules_.handler);
    if (kept.data == nullptr) return NGX_ERROR;
    ngx_str_t uri = kept, args = ngx_null_string;
    ngx_uint_t flags = 0;
    if (ngx_http_parse_unsafe_uri(r, &uri, &args, &flags) != NGX_OK) return NGX_ERROR;
    post_subrequest_.handler = on_subrequest_done;
    post_subrequest_.data = this;
    ngx_http_request_t* sr = nullptr;
    if (ngx_http_subrequest(r, &uri, &args, &sr, &post_subrequest_, NGX_HTTP_SUBREQUEST_BACKGROUND) != NGX_OK)
        return NGX_ERROR;
    subrequest_ = sr;
    sr->filter_need_in_memory = 1;
    sr->method = NGX_HTTP_POST;
    ngx_str_set(&sr->method_name, "POST");
    // The caller's variables are of another event.
    const auto* core = static_cast<ngx_http_core_main_conf_t*>(ngx_http_get_module_main_conf(r, ngx_http_core_module));
    sr->variables = static_cast<ngx_http_variable_value_t*>(
        ngx_pcalloc(r->pool, core->variables.nelts * sizeof(ngx_http_variable_value_t)));
    if (sr->variables == nullptr || !keep_request_headers(sr, is_for_handler) || !add_headers(sr)) return NGX_ERROR;
    return NGX_OK;
}

bool Section::add_headers(ngx_http_request_t* sr) {
    const std::string length = std::to_string(body_size(sr));
    std::string operation;
    append_percent_encoded(operation, call_.argument);
    char token_text[kEventTokenSize];
    write_event_token(token, token_text);
    const ngx_str_t kept_length = copy_to_pool(sr->pool, length);
    const ngx_str_t kept_operation = copy_to_pool(sr->pool, operation);
    const ngx_str_t kept_token = copy_to_pool(sr->pool, {token_text, sizeof token_text});
    if (kept_length.data == nullptr || kept_operation.data == nullptr || kept_token.data == nullptr) return false;
    if (!add_request_header(sr, "Content-Type", "application/json")) return false;
    sr->headers_in.content_type = last_header(sr);
    if (!add_request_header(sr, "Content-Length", view(kept_length))) return false;
    sr->headers_in.content_length = last_header(sr);
    sr->headers_in.content_length_n = -1;  // until on_precontent: a client's limit is not the params'
    sr->headers_in.chunked = 0;
    sr->headers_in.transfer_encoding = nullptr;
    sr->headers_in.expect = nullptr;
    return add_request_header(sr, "Durable-Operation", view(kept_operation)) &&
           add_event_headers(sr, view(kept_token), EventKind::durable_block, object_key_);
}

void Section::on_precontent(ngx_http_request_t* sr) noexcept {
    sr->headers_in.content_length_n = static_cast<off_t>(body_size(sr));
}

ngx_int_t Section::on_header(const ngx_http_request_t* subrequest) noexcept {
    status_ = subrequest->headers_out.status;
    return NGX_OK;
}

ngx_int_t Section::on_body(ngx_chain_t* in) {
    for (; in != nullptr; in = in->next) {
        ngx_buf_t& b = *in->buf;
        if (ngx_buf_in_memory(&b)) {
            const auto size = static_cast<std::size_t>(b.last - b.pos);
            is_too_large_ |= body_.size() + size > kMaxJsonText;
            if (body_.empty() && subrequest_ != nullptr) body_.reserve(expected_size(*subrequest_));
            if (!is_too_large_ && is_running_ && !has_result_) body_.append(reinterpret_cast<char*>(b.pos), size);
            b.pos = b.last;
        }
        if (b.in_file) b.file_pos = b.file_last;
        is_whole_ |= b.last_in_chain || b.last_buf;
    }
    return NGX_OK;
}

void Section::on_handler_done(ngx_http_request_t* subrequest, ngx_int_t rc) noexcept {
    if (subrequest_ == nullptr) return;
    subrequest_ = nullptr;
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) status_ = static_cast<ngx_uint_t>(rc);
    if (rc == NGX_HTTP_CREATED || rc == NGX_HTTP_NO_CONTENT) {
        status_ = static_cast<ngx_uint_t>(rc);
        is_whole_ = true;
    }
    if (rc == NGX_ERROR) is_whole_ = false;
    // nginx itself answers with no buffer at all where there is no text.
    if (subrequest->header_only || (rc == NGX_OK && subrequest->upstream == nullptr)) is_whole_ = true;
    if (is_running_) { ngx_post_event(&done_, &ngx_posted_events); }
}

// Closes the connection to a handler that is past its limit; its answer would only be thrown away.
void Section::abort_handler() noexcept {
    ngx_http_request_t* sr = subrequest_;
    if (sr == nullptr || sr->upstream == nullptr || sr->upstream->cleanup == nullptr) return;
    subrequest_ = nullptr;
    (*sr->upstream->cleanup)(sr);
}

// ---- the outcome ----

void Section::on_done(ngx_event_t* event) noexcept {
    Section& section = *static_cast<Section*>(event->data);
    section.call_.resume([&section] { section.judge(); });
}

void Section::judge() {
    if (!is_running_) return;
    if (status_ < 200 || status_ > 299 || !is_whole_) {
        const std::string reason = status_ < 200 || (status_ <= 299 && !is_whole_)
                                       ? std::string("the handler's answer was cut off")
                                       : "the handler answered " + std::to_string(status_);
        return fail(ErrorCode::exclusive_failed, reason);
    }
    if (has_result_) return succeed();
    if (is_too_large_) return fail(ErrorCode::exclusive_failed, kLargeResult);
    if (body_.empty()) return fail(ErrorCode::section_not_completed);
    // The handler is through; what is left is our own work.
    if (timer_.timer_set) ngx_del_timer(&timer_);
    JsonTask::check_text(call_, std::move(body_), on_result_checked);
}

void Section::on_result_checked(HostCall& call, JsonTask& task) {
    Section& section = *call.section;
    if (!section.is_running_) return;  // the limit came first
    if (!task.is_valid) return section.fail(ErrorCode::exclusive_failed, kBadResult);
    section.result_ = std::move(task.text);
    section.succeed();
}

// X-7a: the caller has its result, then the line moves on. A caller too slow to take it all at once
// keeps it until its request is over, or for as long as a section may run.
void Section::succeed() {
    end_event();
    call_.finish(send_kept_json(call_.request, NGX_HTTP_OK, result_));
    ngx_http_request_t* r = call_.request;
    if (!r->buffered && !r->connection->buffered && r->out == nullptr) return leave_line();
    ngx_add_timer(&timer_, rules_.timeout);
}

void Section::fail(ErrorCode error, std::string_view detail) {
    end_event();
    call_.refuse(error, detail);
    leave_line();
}

void Section::on_timeout(ngx_event_t* event) noexcept {
    Section& section = *static_cast<Section*>(event->data);
    if (!section.is_running_) return section.leave_line();  // a slow caller
    section.call_.resume([&section] {
        section.fail(ErrorCode::section_timed_out);
        section.abort_handler();
    });
}

// ---- commands ----

void Section::answer_read(const Command& command) {
    std::string text, storage;
    std::string_view params;
    if (!body_text(call_.request, storage, params)) {
        return call_.zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::no_memory));
    }
    text.reserve(params.size() + 6 * call_.argument.size() + 64);
    text.append("{\"operation\":");
    append_json_string(text, call_.argument);
    text.append(",\"params\":").append(params).append("}");
    call_.zone.commands().answer_with(command, static_cast<std::int32_t>(ErrorCode::ok), std::move(text));
}

void Section::complete(const Command& command) {
    if (has_result_)
        return call_.zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::already_completed));
    result_ = command.text;
    has_result_ = true;
    body_ = std::string();
    call_.zone.commands().answer(command, static_cast<std::int32_t>(ErrorCode::ok));
}

}  // namespace durable
