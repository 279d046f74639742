// SPDX-License-Identifier: BSD-2-Clause
// The writing half of event_documents.h.
#include "core/event_documents.h"

#include <algorithm>

#include "core/digest.h"
#include "core/es_json.h"

namespace durable {
namespace {

void append_name(std::string& out, std::string_view name) {
    out += out.back() == '{' ? "\"" : ",\"";
    out += name;
    out += "\":";
}

void append_text(std::string& out, std::string_view name, std::string_view text) {
    append_name(out, name);
    append_es_string(out, text);
}

void append_optional(std::string& out, std::string_view name, const std::optional<std::string>& text) {
    append_name(out, name);
    if (text)
        append_es_string(out, *text);
    else
        out += "null";
}

void append_integer(std::string& out, std::string_view name, const std::optional<std::int64_t>& number) {
    append_name(out, name);
    out += number ? std::to_string(*number) : "null";
}

void append_literal(std::string& out, std::string_view name, std::string_view json) {
    append_name(out, name);
    out += json;
}

void append_targets(std::string& out, std::string_view targets) {
    append_name(out, "targets");
    out += '[';
    while (!targets.empty()) {
        const std::size_t end = std::min(targets.find(','), targets.size());
        append_es_string(out, targets.substr(0, end));
        if (end < targets.size()) out += ',';
        targets.remove_prefix(std::min(end + 1, targets.size()));
    }
    out += ']';
}

void append_context_keys(std::string& out, const std::optional<std::string>& context) {
    append_name(out, "contextKeys");
    const std::optional<EsValue> value = context ? parse_es_json(*context) : std::nullopt;
    if (!value) {
        out += "null";
        return;
    }
    std::vector<std::string_view> names;
    for (const auto& [name, member] : value->members) names.push_back(name);
    std::sort(names.begin(), names.end(), utf16_less);
    out += '[';
    for (const std::string_view name : names) {
        if (out.back() != '[') out += ',';
        append_es_string(out, name);
    }
    out += ']';
}

void append_anchor(std::string& out, const Subject& subject) {
    append_name(out, "anchor");
    if (subject.is_topic()) {
        out += "null";
        return;
    }
    out += '{';
    append_text(out, "uid", subject.name);
    append_text(out, "path", subject.name);
    out += '}';
}

std::optional<std::string> unless_empty(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

std::string write_cursor(std::int64_t id) { return base64_encode("{\"id\":" + std::to_string(id) + '}'); }

void append_subscription(std::string& out, const SubscriptionRow& row) {
    const Subject subject = parse_subject(row.subject).subject;
    out += '{';
    append_text(out, "subId", row.sub_id);
    append_text(out, "subject", row.subject);
    append_anchor(out, subject);
    append_optional(out, "match", unless_empty(subject.pattern));
    append_optional(out, "op", unless_empty(subject.op));
    append_targets(out, row.targets);
    append_text(out, "delivery", row.is_single ? "single" : "broadcast");
    append_optional(out, "handlerName", row.handler);
    append_optional(out, "appUid", row.app);
    append_context_keys(out, row.context);
    append_optional(out, "contextHash", row.context ? std::optional(sha256_hex(*row.context)) : std::nullopt);
    append_integer(out, "createdAt", row.created_at);
    append_integer(out, "expiresAt", row.expires_at);
    append_integer(out, "suspendedAt", row.suspended_at);
    append_optional(out, "suspendedReason", row.suspended_reason);
    out += '}';
}

void append_event(std::string& out, const LoggedEvent& event, std::string_view holder) {
    out += '{';
    append_text(out, "id", event.uuid);
    append_text(out, "subject", event.is_gap() ? event.subject.name : event_subject_text(event.subject));
    append_optional(out, "op", unless_empty(event.subject.op));
    if (event.is_gap()) {
        append_text(out, "reason", event.reason);
    } else {
        append_text(out, event.subject.is_topic ? "topic" : "path", event.subject.name);
        if (!event.subject.from.empty()) append_text(out, "from", event.subject.from);
        append_literal(out, "data", event.data ? std::string_view(*event.data) : "null");
    }
    const bool is_own = event.publisher && !holder.empty() && *event.publisher == holder;
    append_literal(out, "self", is_own ? "true" : "false");
    append_integer(out, "ts", event.ts);
    append_integer(out, "seq", event.seq);
    out += '}';
}

void append_delivery_frame(std::string& out, std::string_view sub_id, const LoggedEvent& event, std::string_view holder,
                           bool needs_ack) {
    out += "event: delivery\nid: " + std::to_string(event.seq) + "\ndata: {";
    append_text(out, "subId", sub_id);
    append_name(out, "event");
    append_event(out, event, holder);
    if (needs_ack) {
        append_literal(out, "ackRequired", "true");
        append_text(out, "ackId", event.uuid);
    }
    out += "}\n\n";
}

void append_stream_gap_frame(std::string& out, std::int64_t seq, std::string_view reason) {
    out += "event: gap\nid: " + std::to_string(seq) + "\ndata: {";
    append_text(out, "reason", reason);
    append_integer(out, "seq", seq);
    out += "}\n\n";
}

std::string handler_body(std::string_view handler, const LoggedEvent& event, std::string_view holder,
                         const std::optional<std::string>& context) {
    std::string out = "{";
    append_text(out, "handler", handler);
    append_name(out, "event");
    append_event(out, event, holder);
    append_literal(out, "context", context ? std::string_view(*context) : "null");
    out += '}';
    return out;
}

std::string error_body(const Refusal& refusal) {
    std::string out;
    append_error_json(out, refusal.code, refusal.detail);
    return out;
}

}  // namespace durable
