// SPDX-License-Identifier: BSD-2-Clause
#include "core/deliverer.h"

#include <fcntl.h>

#include <algorithm>

#include "core/digest.h"
#include "core/suspension.h"

namespace durable {
namespace {

constexpr std::int64_t kMaxCalls = 256;
// A process whose handlers are not the store's latest delivers only if no other has done so for this many seconds.
constexpr int kStaleTicks = 3;

constexpr char kConfiguration[] = "SELECT value FROM meta WHERE key = 'handlers'";
constexpr char kGeneration[] = "SELECT value FROM meta WHERE key = 'generation'";
constexpr char kSetConfiguration[] = "UPDATE meta SET value = ?1 WHERE key = 'handlers'";
constexpr char kNextGeneration[] = "UPDATE meta SET value = value + 1 WHERE key = 'generation'";
constexpr char kHasBroadcasts[] = "SELECT 1 FROM broadcasts WHERE handler = ?1 LIMIT 1";

// Open file description locks: the process may have the file open twice, and fork must not matter.
bool lock_whole_file(int fd, int command, short type, short& found) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    const bool is_done = fcntl(fd, command, &lock) == 0;
    found = lock.l_type;
    return is_done;
}

std::string digest_of(const std::vector<HandlerSettings>& handlers) {
    std::vector<std::string> texts;
    for (const HandlerSettings& handler : handlers) {
        texts.push_back(handler.name + '\n' + handler.url + '\n' + std::to_string(handler.timeout_ms) + '\n' +
                        sha256_hex(handler.secret) + '\n');
    }
    std::sort(texts.begin(), texts.end());
    std::string all;
    for (const std::string& text : texts) all += text;
    return sha256_hex(all);
}

}  // namespace

Deliverer::Deliverer(Database& database, Delivery& delivery, const std::vector<HandlerSettings>& handlers,
                     std::int64_t calls_per_handler, event_base* base, std::function<void()> wake)
    : database_(database),
      delivery_(delivery),
      handlers_(handlers),
      calls_per_handler_(calls_per_handler),
      wake_(std::move(wake)),
      configuration_(digest_of(handlers)),
      webhooks_(base) {}

void Deliverer::apply_configuration(std::int64_t now_ms) {
    if (is_current()) return;
    apply_handlers(database_, delivery_, handlers_, now_ms);
    Query(database_, kSetConfiguration).with(configuration_).run();
    Query(database_, kNextGeneration).run();
}

bool Deliverer::is_current() {
    Query query(database_, kConfiguration);
    return query.next() && query.text(0) == configuration_;
}

std::int64_t Deliverer::generation() {
    Query query(database_, kGeneration);
    return query.next() ? query.integer(0) : 0;
}

void Deliverer::tick(int lock_fd, std::int64_t now_ms) {
    if (lock_fd < 0) return;
    if (!is_active_) {
        take_lock(lock_fd, now_ms);
        return;
    }
    if (!is_leaving_ && generation() != generation_) {
        is_leaving_ = !is_current();
        generation_ = generation();
    }
    if (is_leaving_ && webhooks_.running() == 0 && ended_.empty()) give_up(lock_fd);
}

void Deliverer::take_lock(int lock_fd, std::int64_t now_ms) {
    short found = F_UNLCK;
    const bool is_latest = is_current();
    if (database_.has_failed()) return;
    if (!is_latest) {
        const bool is_free = lock_whole_file(lock_fd, F_OFD_GETLK, F_WRLCK, found) && found == F_UNLCK;
        free_ticks_ = is_free ? free_ticks_ + 1 : 0;
        if (free_ticks_ <= kStaleTicks) return;
    }
    if (!lock_whole_file(lock_fd, F_OFD_SETLK, F_WRLCK, found)) return;
    const bool is_ready = transact(database_, false, [&] {
        generation_ = generation();
        delivery_.reclaim_calls(now_ms);
    });
    if (!is_ready) {
        give_up(lock_fd);
        return;
    }
    is_active_ = true;
}

void Deliverer::give_up(int lock_fd) {
    short found = F_UNLCK;
    lock_whole_file(lock_fd, F_OFD_SETLK, F_UNLCK, found);
    is_active_ = false;
    is_leaving_ = false;
    free_ticks_ = 0;
}

std::int64_t Deliverer::free_calls(const std::string& handler) const {
    const auto found = running_.find(handler);
    const std::int64_t running = found != running_.end() ? found->second : 0;
    return std::min(calls_per_handler_ - running, kMaxCalls - static_cast<std::int64_t>(webhooks_.running()));
}

bool Deliverer::has_work(std::int64_t now_ms) {
    if (!ended_.empty()) return true;
    if (is_leaving_) return false;
    const std::optional<std::int64_t> offer_at = delivery_.next_offer_at();
    if (offer_at && *offer_at <= now_ms) return true;
    return std::any_of(handlers_.begin(), handlers_.end(), [&](const HandlerSettings& handler) {
        if (free_calls(handler.name) <= 0) return false;
        const std::optional<std::int64_t> due_at = delivery_.next_due_at(handler.name, now_ms);
        if (due_at && *due_at <= now_ms) return true;
        Query query(database_, kHasBroadcasts);
        return query.with(handler.name).next();
    });
}

bool Deliverer::pump(std::int64_t now_ms) {
    if (!is_active_ || !has_work(now_ms)) return false;
    std::vector<HandlerCall> calls;
    const bool is_done = transact(database_, false, [&] {
        for (const auto& [call, result] : ended_) delivery_.finish(call, result, now_ms);
        if (is_leaving_) return;
        delivery_.resolve_streams(now_ms);
        for (const HandlerSettings& handler : handlers_) claim(handler, now_ms, calls);
    });
    if (!is_done) return false;
    ended_.clear();
    start_calls(std::move(calls), now_ms);
    return true;
}

// Neither kind may starve the other: each gets half of what is free, and what the other leaves.
void Deliverer::claim(const HandlerSettings& handler, std::int64_t now_ms, std::vector<HandlerCall>& calls) {
    const auto own = [&] {
        return std::count_if(calls.begin(), calls.end(),
                             [&](const HandlerCall& call) { return call.handler == handler.name; });
    };
    const auto left = [&] {
        return std::min(free_calls(handler.name) - own(),
                        kMaxCalls - static_cast<std::int64_t>(webhooks_.running() + calls.size()));
    };
    const auto take = [&](std::vector<HandlerCall> taken) {
        std::move(taken.begin(), taken.end(), std::back_inserter(calls));
    };
    if (left() <= 0) return;
    take(delivery_.claim_singles(handler.name, (left() + 1) / 2, busy_rows_, now_ms));
    if (left() > 0) take(delivery_.claim_broadcasts(handler.name, left(), now_ms));
    if (left() > 0) take(delivery_.claim_singles(handler.name, left(), busy_rows_, now_ms));
}

void Deliverer::start_calls(std::vector<HandlerCall> calls, std::int64_t now_ms) {
    for (HandlerCall& call : calls) {
        const auto handler = std::find_if(handlers_.begin(), handlers_.end(),
                                          [&](const HandlerSettings& one) { return one.name == call.handler; });
        ++running_[call.handler];
        if (call.delivery != 0) busy_rows_.insert(call.row);
        webhooks_.call(*handler, std::move(call), now_ms,
                       [this](const HandlerCall& ended, const CallResult& result) { on_done(ended, result); });
    }
}

void Deliverer::on_done(const HandlerCall& call, const CallResult& result) {
    --running_[call.handler];
    if (call.delivery != 0) busy_rows_.erase(call.row);
    ended_.emplace_back(call, result);
    wake_();
}

std::optional<std::int64_t> Deliverer::next_pump_at(std::int64_t now_ms) {
    if (!is_active_ || is_leaving_) return std::nullopt;
    std::optional<std::int64_t> next = delivery_.next_offer_at();
    for (const HandlerSettings& handler : handlers_) {
        if (free_calls(handler.name) <= 0) continue;
        const std::optional<std::int64_t> due_at = delivery_.next_due_at(handler.name, now_ms);
        if (due_at && (!next || *due_at < *next)) next = due_at;
    }
    return next;
}

}  // namespace durable
