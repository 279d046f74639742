// SPDX-License-Identifier: BSD-2-Clause
#include "core/live_streams.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/digest.h"
#include "core/event_documents.h"

namespace durable {
namespace {

constexpr std::int64_t kStep = 200;
constexpr int kStepsPerPump = 10;
constexpr std::size_t kMaxBatchBytes = 262144;
constexpr std::int64_t kClaimsPerBatch = 16;
constexpr std::int64_t kAliveMs = 6000;

constexpr char kHasOffers[] = "SELECT 1 FROM subscriptions WHERE account = ?1 AND stage = 1 LIMIT 1";

std::optional<std::int64_t> parse_position(const std::string& text) {
    std::int64_t position = -1;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), position);
    const bool is_number = result.ec == std::errc() && result.ptr == text.data() + text.size() && position >= 0;
    return is_number ? std::optional(position) : std::nullopt;
}

std::pair<std::string, std::string> scope_key(const Caller& caller) {
    return {caller.account, caller.app.value_or("")};
}

Caller scope_of(const std::pair<std::string, std::string>& key) {
    return {key.first, key.second.empty() ? std::nullopt : std::optional(key.second)};
}

}  // namespace

LiveStreams::LiveStreams(Database& database, EventLog& log, Delivery& delivery, std::string owner, Send send)
    : database_(database), log_(log), delivery_(delivery), owner_(std::move(owner)), send_(std::move(send)) {}

Refusal LiveStreams::open(std::uint64_t id, const Caller& caller, const std::optional<std::string>& subject,
                          const std::optional<std::string>& last_event_id, std::int64_t now_ms) {
    Stream stream;
    stream.caller = caller;
    stream.owner = owner_ + '/' + std::to_string(id);
    stream.position = log_.head();
    if (subject) {
        if (Refusal refusal = open_session(stream, *subject, last_event_id); refusal.is_refused()) return refusal;
    } else if (++scopes_[scope_key(caller)] == 1) {
        transact(database_, false, [&] {
            delivery_.add_live_scope(owner_, caller);
            delivery_.keep_owner_alive(owner_, now_ms + kAliveMs);
        });
    }
    streams_[id] = std::move(stream);
    return {};
}

Refusal LiveStreams::open_session(Stream& stream, const std::string& subject,
                                  const std::optional<std::string>& last_event_id) {
    ParsedSubject parsed = parse_subject(subject);
    if (Refusal refusal = refusal_of(parsed.outcome, subject); refusal.is_refused()) return refusal;
    stream.session = std::move(parsed.subject);
    stream.sub_id = stream.caller.app.value_or("user") + '#' + uuid_v4();
    if (!last_event_id || last_event_id->empty()) return {};
    const std::optional<std::int64_t> position = parse_position(*last_event_id);
    if (!position || *position > stream.position) {
        append_stream_gap_frame(stream.frames, stream.position, "unknown_id");
    } else if (*position < log_.floor()) {
        append_stream_gap_frame(stream.frames, stream.position, "log_trimmed");
    } else {
        stream.position = *position;
    }
    return {};
}

void LiveStreams::set_ready(std::uint64_t id) {
    const auto found = streams_.find(id);
    if (found != streams_.end()) found->second.is_ready = true;
}

void LiveStreams::close(std::uint64_t id, std::int64_t now_ms) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    const Stream stream = std::move(found->second);
    streams_.erase(found);
    if (stream.session) return;
    const auto scope = scopes_.find(scope_key(stream.caller));
    const bool is_last = --scope->second == 0;
    if (is_last) scopes_.erase(scope);
    transact(database_, false, [&] {
        if (is_last) delivery_.remove_live_scope(owner_, stream.caller);
        delivery_.release_stream(stream.owner, now_ms);
    });
}

void LiveStreams::close_all(std::int64_t now_ms) {
    if (!scopes_.empty()) {
        transact(database_, false, [&] {
            for (const auto& [id, stream] : streams_) delivery_.release_stream(stream.owner, now_ms);
            delivery_.forget_owner(owner_);
        });
    }
    streams_.clear();
    scopes_.clear();
}

bool LiveStreams::pump(std::int64_t now_ms) {
    if (streams_.empty()) return false;
    claim_singles(now_ms);
    const bool has_more = read_log(now_ms);
    send_frames();
    return has_more;
}

void LiveStreams::claim_singles(std::int64_t now_ms) {
    for (auto& [id, stream] : streams_) {
        if (stream.session || !stream.is_ready) continue;
        {
            Query query(database_, kHasOffers);
            if (!query.with(stream.caller.account).next()) continue;
        }
        std::vector<StreamClaim> claims;
        const bool is_done = transact(database_, false, [&, &stream = stream] {
            claims = delivery_.claim_for_stream(stream.caller, stream.owner, kClaimsPerBatch, now_ms);
        });
        if (!is_done) return;
        for (const StreamClaim& claim : claims) {
            append_delivery_frame(stream.frames, claim.sub_id, claim.event, stream.caller.account, true);
        }
    }
}

bool LiveStreams::read_log(std::int64_t now_ms) {
    const std::int64_t head = log_.head();
    const std::int64_t floor = log_.floor();
    if (database_.has_failed()) return false;
    skip_trimmed(head, floor);
    for (int step = 0; step < kStepsPerPump; ++step) {
        if (!read_step(now_ms, head, floor)) return false;
    }
    return true;
}

void LiveStreams::skip_trimmed(std::int64_t head, std::int64_t floor) {
    for (auto& [id, stream] : streams_) {
        if (!stream.is_ready || stream.position >= floor) continue;
        stream.position = head;
        if (stream.session) append_stream_gap_frame(stream.frames, head, "log_trimmed");
    }
}

// True: some stream that is ready may still be behind.
bool LiveStreams::read_step(std::int64_t now_ms, std::int64_t head, std::int64_t floor) {
    std::int64_t lowest = head;
    for (const auto& [id, stream] : streams_) {
        if (stream.is_ready) lowest = std::min(lowest, stream.position);
    }
    if (lowest >= head) return false;
    const std::vector<LoggedEvent> events = log_.read(std::max(lowest, floor), kStep);
    if (database_.has_failed()) return false;
    for (const LoggedEvent& event : events) {
        Rows rows;
        for (auto& [id, stream] : streams_) {
            if (!stream.is_ready || stream.position >= event.seq) continue;
            add_event(stream, event, rows, now_ms);
            if (database_.has_failed()) return false;
            stream.position = event.seq;
            if (stream.frames.size() >= kMaxBatchBytes) stream.is_ready = false;
        }
    }
    if (events.size() == static_cast<std::size_t>(kStep)) return true;
    // Positions that no event has: what was rolled back or dropped.
    for (auto& [id, stream] : streams_) {
        if (stream.is_ready) stream.position = std::max(stream.position, head);
    }
    return false;
}

void LiveStreams::add_event(Stream& stream, const LoggedEvent& event, Rows& rows, std::int64_t now_ms) {
    const std::string& account = stream.caller.account;
    if (event.account && *event.account != account) return;
    if (stream.session) {
        if (event.is_gap() || !matches(*stream.session, event.subject)) return;
        append_delivery_frame(stream.frames, stream.sub_id, event, account, false);
        return;
    }
    const auto [found, is_new] = rows.try_emplace(account);
    if (is_new) found->second = log_.matching_rows(event, account, now_ms);
    for (const MatchedRow& row : found->second) {
        const bool is_in_scope = !stream.caller.app || stream.caller.app == row.app;
        if (row.is_single || !row.to_socket || row.suspended_reason || !is_in_scope) continue;
        append_delivery_frame(stream.frames, row.sub_id, event, account, false);
    }
}

void LiveStreams::send_frames() {
    for (auto& [id, stream] : streams_) {
        if (stream.frames.empty()) continue;
        stream.is_ready = false;
        send_(id, std::exchange(stream.frames, {}));
    }
}

void LiveStreams::keep_alive(std::int64_t now_ms) {
    if (scopes_.empty()) return;
    transact(database_, false, [&] { delivery_.keep_owner_alive(owner_, now_ms + kAliveMs); });
}

void LiveStreams::register_all(std::int64_t now_ms) {
    if (scopes_.empty()) return;
    transact(database_, false, [&] {
        for (const auto& [scope, count] : scopes_) delivery_.add_live_scope(owner_, scope_of(scope));
        delivery_.keep_owner_alive(owner_, now_ms + kAliveMs);
    });
}

}  // namespace durable
