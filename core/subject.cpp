// SPDX-License-Identifier: BSD-2-Clause
#include "core/subject.h"

#include <algorithm>

namespace durable {
namespace {

constexpr std::string_view kTopicScheme = "topic:";
constexpr std::string_view kPathScheme = "fs:";
constexpr std::string_view kWildcards = "*?";

bool starts_with(std::string_view text, std::string_view start) noexcept {
    return text.substr(0, start.size()) == start;
}

bool is_continuation(char byte) noexcept { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t count_characters(std::string_view text) noexcept {
    return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

// C0, DEL and C1 (U+0080 to U+009F, which UTF-8 writes as C2 80 to C2 9F).
bool has_control_characters(std::string_view text) noexcept {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte == 0x7F) return true;
        if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
    }
    return false;
}

bool is_acceptable_text(std::string_view text) noexcept {
    return !text.empty() && !has_control_characters(text) && count_characters(text) <= kMaxSubjectCharacters;
}

bool is_operation(std::string_view op) noexcept {
    return op == "add" || op == "write" || op == "move" || op == "remove" || op == "meta";
}

std::string_view take_segment(std::string_view& rest) noexcept {
    const std::size_t end = rest.find('/');
    const std::string_view segment = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    return segment;
}

SubjectOutcome check_pattern(std::string_view pattern) {
    if (count_characters(pattern) > kMaxPatternCharacters) return SubjectOutcome::invalid_subject_pattern;
    std::size_t segments = 0;
    std::size_t deep = 0;
    for (std::string_view rest = pattern; !rest.empty();) {
        const std::string_view segment = take_segment(rest);
        ++segments;
        if (segment == "**") {
            ++deep;
        } else if (std::count(segment.begin(), segment.end(), '*') > 1) {
            return SubjectOutcome::invalid_subject_pattern;
        }
    }
    const bool is_valid = segments <= kMaxPatternSegments && deep <= 1;
    return is_valid ? SubjectOutcome::ok : SubjectOutcome::invalid_subject_pattern;
}

// Splits `PATH[:OP]`. A colon followed by a `/` belongs to the path, since no operation holds one.
void split_operation(std::string_view text, std::string_view& path, std::optional<std::string_view>& op) {
    const std::size_t colon = text.rfind(':');
    path = text;
    if (colon == std::string_view::npos || text.find('/', colon) != std::string_view::npos) return;
    path = text.substr(0, colon);
    op = text.substr(colon + 1);
}

ParsedSubject parse_topic(Subject subject, std::string_view name) {
    if (name.empty()) return {SubjectOutcome::invalid_subject, {}};
    const std::size_t wildcard = name.find_first_of(kWildcards);
    if (wildcard == std::string_view::npos) {
        subject.name = name;
        return {SubjectOutcome::ok, std::move(subject)};
    }
    if (name[wildcard] != '*' || wildcard + 1 != name.size()) return {SubjectOutcome::invalid_subject_pattern, {}};
    subject.kind = SubjectKind::prefix;
    subject.name = name.substr(0, wildcard);
    return {SubjectOutcome::ok, std::move(subject)};
}

ParsedSubject parse_path(Subject subject, std::string_view text) {
    std::string_view raw_path;
    std::optional<std::string_view> op;
    split_operation(text, raw_path, op);
    const std::optional<std::string> path = normalised_path(raw_path);
    if (!path) return {SubjectOutcome::invalid_subject, {}};
    if (op && !is_operation(*op)) return {SubjectOutcome::invalid_subject_op, {}};
    subject.op = op.value_or("");

    const std::size_t wildcard = path->find_first_of(kWildcards);
    if (wildcard == std::string::npos) {
        subject.kind = SubjectKind::tree;
        subject.name = *path;
        return {SubjectOutcome::ok, std::move(subject)};
    }
    const std::size_t cut = path->rfind('/', wildcard);
    subject.kind = SubjectKind::glob;
    subject.name = cut == 0 ? "/" : path->substr(0, cut);
    subject.pattern = path->substr(cut + 1);
    const SubjectOutcome outcome = check_pattern(subject.pattern);
    return outcome == SubjectOutcome::ok ? ParsedSubject{outcome, std::move(subject)} : ParsedSubject{outcome, {}};
}

ParsedEventSubject event_about_topic(std::string_view name, std::string_view op) {
    if (name.empty()) return {SubjectOutcome::invalid_subject, {}};
    if (name.find_first_of(kWildcards) != std::string_view::npos) return {SubjectOutcome::invalid_subject_pattern, {}};
    return {SubjectOutcome::ok, {true, std::string(name), {}, std::string(op)}};
}

ParsedEventSubject event_about_path(std::string_view raw_path, std::string_view op) {
    std::optional<std::string> path = normalised_path(raw_path);
    if (!path) return {SubjectOutcome::invalid_subject, {}};
    if (!is_operation(op)) return {SubjectOutcome::invalid_subject_op, {}};
    return {SubjectOutcome::ok, {false, std::move(*path), {}, std::string(op)}};
}

std::size_t character_length(std::string_view text, std::size_t at) noexcept {
    std::size_t length = 1;
    while (at + length < text.size() && is_continuation(text[at + length])) ++length;
    return length;
}

// `?` and at most one `*` within one segment: the star's run is what the rest leaves over.
bool literal_matches(std::string_view pattern, std::string_view text) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (at >= text.size()) return false;
        if (pattern[i] == '?') {
            at += character_length(text, at);
        } else if (pattern[i] == text[at]) {
            ++at;
        } else {
            return false;
        }
    }
    return at == text.size();
}

// The start of the last `characters` characters of `text`, or npos when it is shorter.
std::size_t start_of_tail(std::string_view text, std::size_t characters) noexcept {
    std::size_t at = text.size();
    for (; characters > 0; --characters) {
        if (at == 0) return std::string_view::npos;
        do --at;
        while (at > 0 && is_continuation(text[at]));
    }
    return at;
}

std::size_t end_of_head(std::string_view text, std::size_t characters) noexcept {
    std::size_t at = 0;
    for (; characters > 0; --characters) {
        if (at >= text.size()) return std::string_view::npos;
        at += character_length(text, at);
    }
    return at;
}

bool segment_matches(std::string_view pattern, std::string_view text) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return literal_matches(pattern, text);
    const std::string_view head = pattern.substr(0, star);
    const std::string_view tail = pattern.substr(star + 1);
    const std::size_t head_end = end_of_head(text, count_characters(head));
    const std::size_t tail_start = start_of_tail(text, count_characters(tail));
    if (head_end == std::string_view::npos || tail_start == std::string_view::npos || head_end > tail_start) {
        return false;
    }
    return literal_matches(head, text.substr(0, head_end)) && literal_matches(tail, text.substr(tail_start));
}

std::vector<std::string_view> split_segments(std::string_view text) {
    std::vector<std::string_view> segments;
    while (!text.empty()) segments.push_back(take_segment(text));
    return segments;
}

bool path_matches(const Subject& subject, std::string_view path) {
    if (path.empty()) return false;
    const bool is_root = subject.name == "/";
    if (path == subject.name) return subject.kind == SubjectKind::tree;
    if (!is_root && (!starts_with(path, subject.name) || path[subject.name.size()] != '/')) return false;
    const std::string_view below = path.substr(is_root ? 1 : subject.name.size() + 1);
    return subject.kind == SubjectKind::tree || glob_matches(subject.pattern, below);
}

void add_path_tokens(std::string_view path, std::vector<std::string>& tokens) {
    tokens.push_back("f/");
    for (std::size_t at = path.find('/', 1); path.size() > 1; at = path.find('/', at + 1)) {
        tokens.push_back("f" + std::string(path.substr(0, at)));
        if (at == std::string_view::npos) break;
    }
}

}  // namespace

std::optional<std::string> normalised_path(std::string_view path) {
    if (!is_acceptable_text(path) || path.front() != '/') return std::nullopt;
    if (path == "/") return std::string(path);
    if (path.back() == '/') path.remove_suffix(1);
    std::string_view rest = path.substr(1);
    if (path.back() == '/') return std::nullopt;
    while (!rest.empty()) {
        const std::string_view segment = take_segment(rest);
        if (segment.empty() || segment == "." || segment == "..") return std::nullopt;
    }
    return path.size() > 1 ? std::optional(std::string(path)) : std::nullopt;
}

ParsedSubject parse_subject(std::string_view text) {
    if (!is_acceptable_text(text)) return {};
    Subject subject;
    subject.text = text;
    if (starts_with(text, kTopicScheme)) return parse_topic(std::move(subject), text.substr(kTopicScheme.size()));
    if (starts_with(text, kPathScheme)) return parse_path(std::move(subject), text.substr(kPathScheme.size()));
    return {};
}

ParsedEventSubject parse_event_subject(std::string_view text) {
    if (!is_acceptable_text(text)) return {};
    if (starts_with(text, kTopicScheme)) return event_about_topic(text.substr(kTopicScheme.size()), {});
    if (!starts_with(text, kPathScheme)) return {};
    std::string_view path;
    std::optional<std::string_view> op;
    split_operation(text.substr(kPathScheme.size()), path, op);
    return event_about_path(path, op.value_or(""));
}

ParsedEventSubject parse_event_subject(std::string_view text, std::string_view op) {
    if (!is_acceptable_text(text) || has_control_characters(op)) return {};
    if (starts_with(text, kTopicScheme)) return event_about_topic(text.substr(kTopicScheme.size()), op);
    if (starts_with(text, kPathScheme)) return event_about_path(text.substr(kPathScheme.size()), op);
    return {};
}

std::string event_subject_text(const EventSubject& event) {
    if (event.is_topic) return std::string(kTopicScheme) + event.name;
    return std::string(kPathScheme) + event.name + ':' + event.op;
}

bool matches(const Subject& subject, const EventSubject& event) {
    if (subject.is_topic() != event.is_topic) return false;
    if (!subject.op.empty() && subject.op != event.op) return false;
    switch (subject.kind) {
        case SubjectKind::exact: return subject.name == event.name;
        case SubjectKind::prefix: return starts_with(event.name, subject.name);
        case SubjectKind::tree:
        case SubjectKind::glob: break;
    }
    return path_matches(subject, event.name) || path_matches(subject, event.from);
}

// The segments before a `**` are anchored at the start, those after it at the end; there is at most one.
bool glob_matches(std::string_view pattern, std::string_view path) {
    const std::vector<std::string_view> wanted = split_segments(pattern);
    const std::vector<std::string_view> given = split_segments(path);
    const auto deep = std::find(wanted.begin(), wanted.end(), "**");
    const auto head = static_cast<std::size_t>(deep - wanted.begin());
    const bool has_deep = deep != wanted.end();
    const std::size_t tail = has_deep ? wanted.size() - head - 1 : 0;
    const std::size_t least = head + tail + (has_deep && tail == 0 ? 1 : 0);
    if (has_deep ? given.size() < least : given.size() != head) return false;
    for (std::size_t i = 0; i < head; ++i) {
        if (!segment_matches(wanted[i], given[i])) return false;
    }
    for (std::size_t i = 0; i < tail; ++i) {
        if (!segment_matches(wanted[wanted.size() - 1 - i], given[given.size() - 1 - i])) return false;
    }
    return true;
}

std::string match_token(const Subject& subject) {
    const char kind = subject.kind == SubjectKind::exact ? 't' : subject.kind == SubjectKind::prefix ? 'p' : 'f';
    return kind + subject.name;
}

std::vector<std::string> match_tokens(const EventSubject& event, const std::vector<std::size_t>& prefix_lengths) {
    std::vector<std::string> tokens;
    if (event.is_topic) {
        tokens.push_back('t' + event.name);
        for (const std::size_t length : prefix_lengths) {
            if (length <= event.name.size()) tokens.push_back('p' + event.name.substr(0, length));
        }
        return tokens;
    }
    add_path_tokens(event.name, tokens);
    if (!event.from.empty()) add_path_tokens(event.from, tokens);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
}

}  // namespace durable
