// SPDX-License-Identifier: BSD-2-Clause
// Calls of handlers: one signed POST each, over http or https, without blocking the libevent loop it runs on (E-34).
// Redirects are not followed; the answer's body is read to its end but not kept. One thread, that of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/delivery.h"
#include "core/store_types.h"

struct event_base;
struct evdns_base;
struct ssl_ctx_st;

namespace durable {

inline constexpr std::size_t kMaxAnswerHead = 32768;
inline constexpr std::size_t kMaxAnswerBody = 1048576;

struct WebhookUrl {
    bool is_secure = false;
    std::string host;  // a name or an address, without brackets
    std::uint16_t port = 80;
    std::string authority;  // for the Host header
    std::string target;     // path and query
};

// http:// and https:// only, no user information; a fragment is dropped. nullopt otherwise.
[[nodiscard]] std::optional<WebhookUrl> parse_webhook_url(std::string_view url);

// `v1,` and the base64 of HMAC-SHA-256 over `id.timestamp.body` (Standard Webhooks); empty when libcrypto fails.
[[nodiscard]] std::string webhook_signature(std::string_view secret, std::string_view id, std::int64_t timestamp_s,
                                            std::string_view body);

// What an answer's status means for the delivery (E-34).
[[nodiscard]] CallResult::Kind judge_status(int status) noexcept;

class Webhooks {
public:
    using Done = std::function<void(const HandlerCall&, const CallResult&)>;

    explicit Webhooks(event_base* base);
    ~Webhooks();  // drops every call that runs; their `done` is not called
    Webhooks(const Webhooks&) = delete;
    Webhooks& operator=(const Webhooks&) = delete;

    // Calls `done` exactly once, never from within this call, unless the object is destroyed before.
    void call(const HandlerSettings& handler, HandlerCall call, std::int64_t now_ms, Done done);

    std::size_t running() const noexcept;

private:
    class Call;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace durable
