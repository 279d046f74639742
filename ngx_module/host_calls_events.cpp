// SPDX-License-Identifier: BSD-2-Clause
// The operator's calls of the events API (E-26, E-37). They belong to no object, so no section holds them.
#include "core/store_thread.h"
#include "ngx_module/event_store.h"
#include "ngx_module/host_calls.h"
#include "ngx_module/pool.h"

namespace durable {

namespace {

class OperatorCall final : public StoreClient {
public:
    explicit OperatorCall(HostCall& call) noexcept : call_(call) {}

    void on_store_answer(ngx_uint_t status, std::string&& body) noexcept override {
        HostCall& call = call_;
        call.resume([&] { call.answer(status, body); });
    }

private:
    HostCall& call_;
};

template <class OneJob>
void submit(HostCall& call) {
    std::string storage;
    std::string_view body;
    if (!call.read_body(storage, body)) return;
    EventStore* store = EventStore::of(*main_settings(call.request));
    if (store == nullptr) return call.refuse(ErrorCode::store_failed, "it could not be started");
    auto* waiting = create_in_pool<OperatorCall>(call.request->pool, call);
    if (waiting == nullptr) return call.finish(NGX_HTTP_INTERNAL_SERVER_ERROR);
    store->submit(OneJob{std::string(body)}, *waiting);
    call.park();
}

}  // namespace

void publish_event_call(HostCall& call) { submit<PublishJob>(call); }

void suspend_call(HostCall& call) { submit<SuspendJob>(call); }

void resume_call(HostCall& call) { submit<ResumeJob>(call); }

}  // namespace durable
