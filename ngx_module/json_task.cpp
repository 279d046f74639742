// SPDX-License-Identifier: BSD-2-Clause
#include "ngx_module/json_task.h"

#include "ngx_module/pool.h"
#include "ngx_module/request_body.h"

namespace durable {

namespace {

constexpr std::size_t kShort = 64 * 1024;
constexpr std::size_t kValuesAtOnce = 8192;

}  // namespace

JsonTask* JsonTask::create(HostCall& call, Then then) {
    auto* task = create_in_pool<JsonTask>(call.request->pool, call, then);
    if (task == nullptr) call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    return task;
}

void JsonTask::check_body(HostCall& call, Then then) {
    JsonTask* task = create(call, then);
    if (task == nullptr) return;
    const ngx_http_request_body_t* body = call.request->request_body;
    for (const ngx_chain_t* cl = body == nullptr ? nullptr : body->bufs; cl != nullptr; cl = cl->next) {
        const ngx_buf_t& b = *cl->buf;
        const auto size = static_cast<std::size_t>(ngx_buf_size(&b));
        if (ngx_buf_in_memory(&b)) {
            task->pieces_.push_back({b.pos, size, NGX_INVALID_FILE, 0});
        } else if (size != 0) {
            task->pieces_.push_back({nullptr, size, b.file->fd, b.file_pos});
        }
    }
    task->start(body_size(call.request));
}

void JsonTask::check_text(HostCall& call, std::string text, Then then) {
    JsonTask* task = create(call, then);
    if (task == nullptr) return;
    task->text = std::move(text);
    task->start(task->text.size());
}

// Puts the pieces together. On any thread: touches nothing of the request's.
void JsonTask::read() {
    std::size_t size = text.size();
    for (const Piece& piece : pieces_) size += piece.size;
    text.reserve(size + kJsonPadding);
    for (const Piece& piece : pieces_) {
        const std::size_t at = text.size();
        if (piece.start != nullptr) {
            text.append(reinterpret_cast<const char*>(piece.start), piece.size);
            continue;
        }
        text.resize(at + piece.size);
        for (std::size_t done = 0; done < piece.size;) {
            const ssize_t n =
                pread(piece.fd, &text[at + done], piece.size - done, piece.offset + static_cast<off_t>(done));
            if (n <= 0) {
                is_read = false;
                return;
            }
            done += static_cast<std::size_t>(n);
        }
    }
}

void JsonTask::check() {
    read();
    if (!is_read) return;
    JsonCheck walk(text, text.capacity());
    JsonCheck::Result result;
    while ((result = walk.step(kValuesAtOnce)) == JsonCheck::Result::more) {}
    is_valid = result == JsonCheck::Result::valid;
}

void JsonTask::start(std::size_t size) {
    if (size <= kShort) {
        check();
        return then_(call_, *this);
    }
    ngx_http_request_t* r = call_.request;
    call_.park();
#if (NGX_THREADS)
    static ngx_str_t name = ngx_string("default");
    ngx_thread_pool_t* pool = ngx_thread_pool_get(const_cast<ngx_cycle_t*>(ngx_cycle), &name);
    ngx_thread_task_t* task = ngx_thread_task_alloc(r->pool, 0);
    if (pool == nullptr || task == nullptr) return call_.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    task->ctx = this;
    task->handler = on_thread;
    task->event.data = this;
    task->event.handler = on_done;
    if (ngx_thread_task_post(pool, task) != NGX_OK) return call_.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
#else
    read();
    if (is_read) slices_ = std::make_unique<JsonCheck>(text, text.capacity());
    event_.data = this;
    event_.handler = on_slice;
    event_.log = r->connection->log;
    ngx_post_event(&event_, &ngx_posted_next_events);
#endif
    r->main->blocked++;
    r->aio = 1;
}

void JsonTask::on_thread(void* data, ngx_log_t*) noexcept {
    auto& task = *static_cast<JsonTask*>(data);
    try {
        task.check();
    } catch (...) { task.is_read = false; }
}

void JsonTask::on_done(ngx_event_t* event) noexcept { static_cast<JsonTask*>(event->data)->finish(); }

void JsonTask::on_slice(ngx_event_t* event) noexcept {
    auto& task = *static_cast<JsonTask*>(event->data);
    const auto result = task.slices_ == nullptr ? JsonCheck::Result::invalid : task.slices_->step(kValuesAtOnce);
    if (result == JsonCheck::Result::more) {
        ngx_post_event(event, &ngx_posted_next_events);
        return;
    }
    task.is_valid = result == JsonCheck::Result::valid;
    task.finish();
}

void JsonTask::finish() noexcept {
    ngx_http_request_t* r = call_.request;
    ngx_connection_t* c = r->connection;
    r->main->blocked--;
    r->aio = 0;
    if (r->write_event_handler != ngx_http_request_empty_handler) {
        // The client left meanwhile, and nginx has put its finalizer where park() put nothing.
        ngx_http_set_log_request(c->log, r);
        r->write_event_handler(r);
        ngx_http_run_posted_requests(c);
        return;
    }
    call_.resume([this] { then_(call_, *this); });
}

}  // namespace durable
