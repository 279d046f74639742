// SPDX-License-Identifier: BSD-2-Clause
// The reading half of event_documents.h.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/digest.h"
#include "core/es_json.h"
#include "core/event_documents.h"
#include "core/time_text.h"

namespace durable {
namespace {

constexpr double kMaxTime = 8.64e12;          // ECMA-262, 21.4.1.1: the last time a Date can hold, in seconds
constexpr double kMaxKey = 9007199254740991;  // the largest integer that JSON carries safely

int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

std::string decode_argument(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const int high = text[at] == '%' && at + 2 < text.size() ? hex_value(text[at + 1]) : -1;
        const int low = high >= 0 ? hex_value(text[at + 2]) : -1;
        if (low >= 0) {
            out += static_cast<char>(high * 16 + low);
            at += 2;
        } else {
            out += text[at] == '+' ? ' ' : text[at];
        }
    }
    return out;
}

Refusal parse_body(std::string_view body, std::optional<EsValue>& value) {
    if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        return {ErrorCode::bad_request, "the body is empty"};
    }
    value = parse_es_json(body);
    if (!value) return {ErrorCode::client_bad_json, {}};
    if (!value->is_object()) return {ErrorCode::bad_request, "the body is not a JSON object"};
    return {};
}

// A member that is null counts as absent.
const EsValue* member(const EsValue& body, std::string_view name) noexcept {
    const EsValue* value = body.find(name);
    return value != nullptr && !value->is_null() ? value : nullptr;
}

Refusal read_text(const EsValue& body, std::string_view name, std::optional<std::string>& text) {
    const EsValue* value = member(body, name);
    if (value == nullptr) return {};
    if (!value->is_string()) return {ErrorCode::bad_request, std::string(name) + " must be a string"};
    text = value->text;
    return {};
}

// A subject with a lone surrogate is no text.
bool is_text(std::string_view wtf8) noexcept {
    for (std::size_t at = wtf8.find('\xED'); at != std::string_view::npos; at = wtf8.find('\xED', at + 1)) {
        if (at + 1 < wtf8.size() && static_cast<unsigned char>(wtf8[at + 1]) >= 0xA0) return false;
    }
    return true;
}

Refusal read_subject(const EsValue& body, Subject& subject) {
    const EsValue* value = member(body, "subject");
    if (value == nullptr || !value->is_string() || !is_text(value->text)) return {ErrorCode::invalid_subject, {}};
    ParsedSubject parsed = parse_subject(value->text);
    subject = std::move(parsed.subject);
    return refusal_of(parsed.outcome, value->text);
}

Refusal read_delivery(const EsValue& body, bool& is_single) {
    const EsValue* value = member(body, "delivery");
    if (value == nullptr) return {};
    is_single = value->text == "single";
    if (value->is_string() && (is_single || value->text == "broadcast")) return {};
    return {ErrorCode::bad_request, "delivery must be broadcast or single"};
}

Refusal read_targets(const EsValue& body, NewSubscription& wanted) {
    const EsValue* value = member(body, "targets");
    if (value == nullptr) {
        wanted.targets = {"socket"};
        if (wanted.handler) wanted.targets.emplace_back("worker");
        return {};
    }
    if (value->type != EsValue::Type::array || value->items.empty()) return {ErrorCode::invalid_targets, {}};
    for (const EsValue& item : value->items) {
        const bool is_allowed =
            item.is_string() && (item.text == "socket" || (item.text == "worker" && wanted.handler) ||
                                 (item.text == "push" && !wanted.is_single));
        if (!is_allowed) return {ErrorCode::invalid_targets, item.is_string() ? item.text : std::string()};
        if (std::find(wanted.targets.begin(), wanted.targets.end(), item.text) == wanted.targets.end()) {
            wanted.targets.push_back(item.text);
        }
    }
    return {};
}

Refusal check_handler(const EsValue& body, const std::vector<HandlerSettings>& handlers,
                      const NewSubscription& wanted) {
    std::optional<std::string> hash;
    if (Refusal refusal = read_text(body, "handlerHash", hash); refusal.is_refused()) return refusal;
    if (!wanted.handler) return {};
    const auto found = std::find_if(handlers.begin(), handlers.end(),
                                    [&](const HandlerSettings& handler) { return handler.name == *wanted.handler; });
    if (found == handlers.end()) return {ErrorCode::events_handler_not_found, *wanted.handler};
    if (hash && *hash != handler_hash(*found)) return {ErrorCode::events_handler_hash_mismatch, *wanted.handler};
    return {};
}

Refusal read_expiry(const EsValue& body, std::int64_t now_s, std::optional<std::int64_t>& expires_at) {
    const EsValue* value = member(body, "expiresAt");
    if (value == nullptr) return {};
    const Refusal refused{ErrorCode::invalid_expires_at, std::string(value->source)};
    if (value->type == EsValue::Type::number) {
        if (!(std::fabs(value->number) <= kMaxTime)) return refused;
        expires_at = static_cast<std::int64_t>(value->number);
    } else if (value->is_string()) {
        expires_at = parse_iso_time(value->text);
    }
    return expires_at && *expires_at > now_s ? Refusal{} : refused;
}

Refusal read_context(const EsValue& body, std::optional<std::string>& context) {
    const EsValue* value = member(body, "context");
    if (value == nullptr) return {};
    context = write_es_json(*value);
    // The context itself is never repeated to anyone, so the refusal names its size alone.
    if (context->size() <= kMaxContextBytes) return {};
    return {ErrorCode::events_context_too_large, std::to_string(context->size())};
}

Refusal read_publish_place(const EsValue& body, LoggedEvent& event) {
    std::optional<std::string> from;
    if (Refusal refusal = read_text(body, "from", from); refusal.is_refused()) return refusal;
    if (!from || event.subject.is_topic || event.subject.op != "move") return {};
    const std::optional<std::string> path = is_text(*from) ? normalised_path(*from) : std::nullopt;
    if (!path) return {ErrorCode::invalid_subject, "from must be an absolute normalised path"};
    event.subject.from = *path;
    return {};
}

}  // namespace

std::optional<std::string> query_argument(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view pair = query.substr(0, end);
        const std::size_t equals = std::min(pair.find('='), pair.size());
        if (decode_argument(pair.substr(0, equals)) == name) {
            return decode_argument(equals < pair.size() ? pair.substr(equals + 1) : std::string_view());
        }
        query.remove_prefix(std::min(end + 1, query.size()));
    }
    return std::nullopt;
}

Refusal parse_page_request(std::string_view query, std::string_view cursor_name, PageRequest& page) {
    page.wants_total = query_argument(query, "includeTotal") == "true";
    if (const std::optional<std::string> limit = query_argument(query, "limit")) {
        if (limit->empty() || limit->find_first_not_of("0123456789") != std::string::npos ||
            limit->find_first_not_of('0') == std::string::npos) {
            return {ErrorCode::bad_request, "limit must be a positive number, not \"" + *limit + '"'};
        }
        const auto result = std::from_chars(limit->data(), limit->data() + limit->size(), page.limit);
        if (result.ec != std::errc() || page.limit > kMaxPageLimit) page.limit = kMaxPageLimit;
    }
    const std::optional<std::string> cursor = query_argument(query, cursor_name);
    if (!cursor || cursor->empty()) return {};
    const std::optional<std::string> decoded = base64_decode(*cursor);
    const std::optional<EsValue> value = decoded ? parse_es_json(*decoded) : std::nullopt;
    if (!value) return {ErrorCode::bad_request, "the cursor cannot be read"};
    const EsValue* id = value->find("id");
    const bool is_usable = id != nullptr && id->type == EsValue::Type::number && id->number >= 0 &&
                           id->number <= kMaxKey && id->number == std::floor(id->number);
    if (is_usable) page.after = static_cast<std::int64_t>(id->number);
    return {};
}

Refusal parse_subscribe(std::string_view body, const std::vector<HandlerSettings>& handlers, std::int64_t now_s,
                        NewSubscription& wanted) {
    std::optional<EsValue> value;
    if (Refusal refusal = parse_body(body, value); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_subject(*value, wanted.subject); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_delivery(*value, wanted.is_single); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_text(*value, "handlerName", wanted.handler); refusal.is_refused()) return refusal;
    if (wanted.handler && wanted.handler->empty()) wanted.handler.reset();
    if (wanted.is_single && !wanted.handler) return {ErrorCode::events_handler_required, {}};
    if (Refusal refusal = read_targets(*value, wanted); refusal.is_refused()) return refusal;
    if (Refusal refusal = check_handler(*value, handlers, wanted); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_expiry(*value, now_s, wanted.expires_at); refusal.is_refused()) return refusal;
    return read_context(*value, wanted.context);
}

Refusal parse_unsubscribe(std::string_view body, std::string& sub_id) {
    std::optional<EsValue> value;
    if (Refusal refusal = parse_body(body, value); refusal.is_refused()) return refusal;
    const EsValue* id = member(*value, "subId");
    if (id != nullptr && id->is_string()) sub_id = id->text;
    return {};
}

Refusal parse_ack(std::string_view body, std::string& sub_id, std::string& event_id) {
    std::optional<EsValue> value;
    if (Refusal refusal = parse_body(body, value); refusal.is_refused()) return refusal;
    const EsValue* sub = member(*value, "subId");
    const EsValue* id = member(*value, "id");
    if (id == nullptr || !id->is_string()) return {ErrorCode::bad_request, "id must be a string"};
    if (sub != nullptr && sub->is_string()) sub_id = sub->text;
    event_id = id->text;
    return {};
}

Refusal parse_publish(std::string_view body, LoggedEvent& event) {
    if (body.size() > kMaxPublishBytes) return {ErrorCode::event_too_large, {}};
    std::optional<EsValue> value;
    if (Refusal refusal = parse_body(body, value); refusal.is_refused()) return refusal;
    const EsValue* subject = member(*value, "subject");
    if (subject == nullptr || !subject->is_string() || !is_text(subject->text)) return {ErrorCode::invalid_subject, {}};
    ParsedEventSubject parsed = parse_event_subject(subject->text);
    if (parsed.outcome != SubjectOutcome::ok) return refusal_of(parsed.outcome, subject->text);
    event.subject = std::move(parsed.subject);
    if (Refusal refusal = read_publish_place(*value, event); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_text(*value, "account", event.account); refusal.is_refused()) return refusal;
    // An empty account would reach nobody: no caller can have it (E-4).
    if (event.account && event.account->empty()) return {ErrorCode::bad_request, "account must not be empty"};
    const EsValue* data = member(*value, "data");
    if (data != nullptr) event.data = compact_json(data->source);
    return {};
}

Refusal parse_suspension(std::string_view body, bool needs_reason, SuspensionRequest& request) {
    std::optional<EsValue> value;
    if (Refusal refusal = parse_body(body, value); refusal.is_refused()) return refusal;
    std::optional<std::string> account;
    std::optional<std::string> prefix;
    std::optional<std::string> reason;
    if (Refusal refusal = read_text(*value, "account", account); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_text(*value, "app", request.app); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_text(*value, "subjectPrefix", prefix); refusal.is_refused()) return refusal;
    if (Refusal refusal = read_text(*value, "reason", reason); refusal.is_refused()) return refusal;
    if (!account || account->empty()) return {ErrorCode::bad_request, "account is required"};
    if (!reason && needs_reason) return {ErrorCode::bad_request, "reason is required"};
    if (reason && *reason != "handler_not_found" && *reason != "failures" && *reason != "no_credit" &&
        *reason != "permission_revoked") {
        return {ErrorCode::bad_request,
                "reason must be handler_not_found, failures, no_credit or permission_revoked, not \"" + *reason + '"'};
    }
    request.account = *account;
    request.subject_prefix = prefix.value_or("");
    request.reason = reason.value_or("");
    return {};
}

Refusal refusal_of(SubjectOutcome outcome, std::string_view subject) {
    switch (outcome) {
        case SubjectOutcome::ok: return {};
        case SubjectOutcome::invalid_subject: return {ErrorCode::invalid_subject, std::string(subject)};
        case SubjectOutcome::invalid_subject_op: return {ErrorCode::invalid_subject_op, std::string(subject)};
        case SubjectOutcome::invalid_subject_pattern: break;
    }
    return {ErrorCode::invalid_subject_pattern, std::string(subject)};
}

std::string handler_hash(const HandlerSettings& handler) { return sha256_hex(handler.url); }

}  // namespace durable
