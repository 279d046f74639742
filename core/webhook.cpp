// SPDX-License-Identifier: BSD-2-Clause
#include "core/webhook.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/digest.h"
#include "core/http_answer.h"
#include "core/time_text.h"

namespace durable {
namespace {

constexpr std::int64_t kMaxRetryAfterMs = 86400000;
// Deferred: a connect that fails at once must not end the call while it is being started.
constexpr int kBufferOptions = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;

bool is_address(const std::string& host) {
    unsigned char address[16];
    return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

timeval to_timeval(std::int64_t ms) noexcept { return {ms / 1000, (ms % 1000) * 1000}; }

// The certificate must be valid and be the host's; without a usable check there is no connection.
SSL* new_tls(SSL_CTX* context, const std::string& host) {
    SSL* tls = context != nullptr ? SSL_new(context) : nullptr;
    if (tls == nullptr) return nullptr;
    bool is_ready = false;
    if (is_address(host)) {
        is_ready = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host.c_str()) == 1;
    } else {
        SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        is_ready = SSL_set1_host(tls, host.c_str()) == 1 && SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
    }
    if (is_ready) return tls;
    SSL_free(tls);
    return nullptr;
}

std::string request_text(const HandlerSettings& handler, const WebhookUrl& url, const HandlerCall& call,
                         std::int64_t now_s) {
    std::string text = "POST " + url.target + " HTTP/1.1\r\nHost: " + url.authority +
                       "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) +
                       "\r\nConnection: close\r\nUser-Agent: durable-events\r\nwebhook-id: " + call.webhook_id +
                       "\r\nwebhook-timestamp: " + std::to_string(now_s);
    if (!handler.secret.empty()) {
        text += "\r\nwebhook-signature: " + webhook_signature(handler.secret, call.webhook_id, now_s, call.body);
    }
    return text + "\r\n\r\n" + call.body;
}

}  // namespace

struct Webhooks::State {
    event_base* base = nullptr;
    evdns_base* dns = nullptr;
    SSL_CTX* tls = nullptr;
    std::map<Call*, std::unique_ptr<Call>> calls;
};

// One call. It ends itself: finish() removes it from the map, so nothing may touch it afterwards.
class Webhooks::Call {
public:
    Call(State& state, HandlerCall call, std::int64_t now_ms, Done done)
        : state_(state), call_(std::move(call)), now_ms_(now_ms), done_(std::move(done)) {}

    ~Call() {
        if (timer_ != nullptr) event_free(timer_);
        if (connection_ != nullptr) bufferevent_free(connection_);
    }

    void start(const HandlerSettings& handler) {
        timer_ = evtimer_new(state_.base, on_timeout, this);
        const std::optional<WebhookUrl> url = parse_webhook_url(handler.url);
        const bool is_open = url && open(*url);
        const timeval limit = to_timeval(is_open ? handler.timeout_ms : 0);
        evtimer_add(timer_, &limit);
        if (!is_open) return;
        bufferevent_setcb(connection_, on_read, nullptr, on_event, this);
        bufferevent_enable(connection_, EV_READ | EV_WRITE);
        const std::string text = request_text(handler, *url, call_, now_ms_ / 1000);
        bufferevent_write(connection_, text.data(), text.size());
        if (bufferevent_socket_connect_hostname(connection_, state_.dns, AF_UNSPEC, url->host.c_str(), url->port) !=
            0) {
            const timeval now = to_timeval(0);
            evtimer_add(timer_, &now);
        }
    }

private:
    bool open(const WebhookUrl& url) {
        if (url.is_secure) {
            SSL* tls = new_tls(state_.tls, url.host);
            if (tls == nullptr) return false;
            connection_ =
                bufferevent_openssl_socket_new(state_.base, -1, tls, BUFFEREVENT_SSL_CONNECTING, kBufferOptions);
            // Many servers close without a TLS goodbye; the answer's own length says whether it is whole.
            if (connection_ != nullptr) bufferevent_openssl_set_allow_dirty_shutdown(connection_, 1);
        } else {
            connection_ = bufferevent_socket_new(state_.base, -1, kBufferOptions);
        }
        return connection_ != nullptr;
    }

    static void on_read(bufferevent* connection, void* self) { static_cast<Call*>(self)->read(connection); }
    static void on_timeout(evutil_socket_t, short, void* self) { static_cast<Call*>(self)->finish(); }
    static void on_event(bufferevent* connection, short what, void* self) {
        if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0) return;
        auto* call = static_cast<Call*>(self);
        if (!call->read(connection)) call->finish();
    }

    // True: the call has ended and is gone.
    bool read(bufferevent* connection) {
        evbuffer* input = bufferevent_get_input(connection);
        char block[4096];
        for (int size = 0; (size = evbuffer_remove(input, block, sizeof block)) > 0;) {
            if (answer_.feed({block, static_cast<std::size_t>(size)}) == HttpAnswer::State::more) continue;
            finish();
            return true;
        }
        return false;
    }

    // Whatever came before the end counts: a status that was received is the answer.
    void finish() {
        CallResult result;
        if (answer_.status() != 0) {
            result.kind = judge_status(answer_.status());
            const auto retry_after_s = parse_retry_after(answer_.retry_after(), now_ms_ / 1000);
            result.retry_after_ms = std::min(kMaxRetryAfterMs, retry_after_s.value_or(0) * 1000);
        }
        const HandlerCall call = std::move(call_);
        const Done done = std::move(done_);
        state_.calls.erase(this);
        done(call, result);
    }

    State& state_;
    HandlerCall call_;
    std::int64_t now_ms_;
    Done done_;
    HttpAnswer answer_{kMaxAnswerHead, kMaxAnswerBody};
    event* timer_ = nullptr;
    bufferevent* connection_ = nullptr;
};

std::string webhook_signature(std::string_view secret, std::string_view id, std::int64_t timestamp_s,
                              std::string_view body) {
    std::string content(id);
    content += '.' + std::to_string(timestamp_s) + '.';
    content += body;
    const std::string mac = hmac_sha256(secret, content);
    return mac.empty() ? std::string() : "v1," + base64_encode(mac);
}

CallResult::Kind judge_status(int status) noexcept {
    if (status >= 200 && status < 300) return CallResult::Kind::settled;
    const bool is_retried = status == 408 || status == 425 || status == 429;
    return status >= 400 && status < 500 && !is_retried ? CallResult::Kind::rejected : CallResult::Kind::failed;
}

Webhooks::Webhooks(event_base* base) : state_(std::make_unique<State>()) {
    state_->base = base;
    constexpr int kFlags = EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE;
    state_->dns = evdns_base_new(base, kFlags);
    // Without a usable resolv.conf, addresses and the hosts file still work.
    if (state_->dns == nullptr) state_->dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (state_->dns != nullptr) evdns_base_set_option(state_->dns, "randomize-case:", "0");
    state_->tls = SSL_CTX_new(TLS_client_method());
    if (state_->tls == nullptr) return;
    SSL_CTX_set_min_proto_version(state_->tls, TLS1_2_VERSION);
    SSL_CTX_set_default_verify_paths(state_->tls);
    SSL_CTX_set_verify(state_->tls, SSL_VERIFY_PEER, nullptr);
}

Webhooks::~Webhooks() {
    state_->calls.clear();
    if (state_->dns != nullptr) evdns_base_free(state_->dns, 0);
    if (state_->tls != nullptr) SSL_CTX_free(state_->tls);
}

void Webhooks::call(const HandlerSettings& handler, HandlerCall call, std::int64_t now_ms, Done done) {
    auto one = std::make_unique<Call>(*state_, std::move(call), now_ms, std::move(done));
    Call* raw = one.get();
    state_->calls.emplace(raw, std::move(one));
    raw->start(handler);
}

std::size_t Webhooks::running() const noexcept { return state_->calls.size(); }

std::optional<WebhookUrl> parse_webhook_url(std::string_view url) {
    WebhookUrl parsed;
    if (url.substr(0, 8) == "https://") {
        parsed.is_secure = true;
        parsed.port = 443;
        url.remove_prefix(8);
    } else if (url.substr(0, 7) == "http://") {
        url.remove_prefix(7);
    } else {
        return std::nullopt;
    }
    const bool is_plain = std::all_of(url.begin(), url.end(), [](char byte) { return byte > 0x20 && byte < 0x7F; });
    url = url.substr(0, url.find('#'));
    const std::size_t end = std::min(url.find_first_of("/?"), url.size());
    const std::string_view authority = url.substr(0, end);
    if (!is_plain || authority.empty() || authority.find('@') != std::string_view::npos) return std::nullopt;
    parsed.authority = authority;
    parsed.target = url.substr(end);
    if (parsed.target.empty() || parsed.target[0] == '?') parsed.target.insert(0, 1, '/');

    const bool is_bracketed = authority[0] == '[';
    const std::size_t host_end = is_bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
    if (host_end == std::string_view::npos) return std::nullopt;
    parsed.host = is_bracketed ? authority.substr(1, host_end - 1) : authority.substr(0, host_end);
    std::string_view port = authority.substr(is_bracketed ? host_end + 1 : host_end);
    if (parsed.host.empty()) return std::nullopt;
    if (port.empty()) return parsed;
    if (port[0] != ':') return std::nullopt;
    port.remove_prefix(1);
    const auto result = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    const bool is_number = result.ec == std::errc() && result.ptr == port.data() + port.size() && parsed.port > 0;
    return is_number ? std::optional(parsed) : std::nullopt;
}

}  // namespace durable
