// SPDX-License-Identifier: BSD-2-Clause
// Subjects of the events API: what a subscription watches and what an event is about (E-14 to E-17), and whether
// the one matches the other. Pure text; no allocation survives a call except in the returned values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace durable {

inline constexpr std::size_t kMaxSubjectCharacters = 4096;
inline constexpr std::size_t kMaxPatternCharacters = 256;
inline constexpr std::size_t kMaxPatternSegments = 16;

enum class SubjectOutcome : std::uint8_t { ok, invalid_subject, invalid_subject_op, invalid_subject_pattern };

// `exact`, `prefix`: topics. `tree`: a path and everything below it. `glob`: what matches below the anchor.
enum class SubjectKind : std::uint8_t { exact, prefix, tree, glob };

// What a subscription watches.
struct Subject {
    SubjectKind kind = SubjectKind::exact;
    std::string text;     // as it was given
    std::string name;     // topic name, topic prefix without its `*`, or the anchor's path
    std::string pattern;  // kind glob: the part right of the anchor, else empty
    std::string op;       // empty: every operation

    bool is_topic() const noexcept { return kind == SubjectKind::exact || kind == SubjectKind::prefix; }
};

struct ParsedSubject {
    SubjectOutcome outcome = SubjectOutcome::invalid_subject;
    Subject subject;
};

// What an event is about.
struct EventSubject {
    bool is_topic = true;
    std::string name;  // topic name, or path
    std::string from;  // fs moves: where it came from, else empty
    std::string op;    // fs: always set; topic: empty or what the emitter said
};

struct ParsedEventSubject {
    SubjectOutcome outcome = SubjectOutcome::invalid_subject;
    EventSubject subject;
};

// E-14, E-15, E-17. A single `/` at the end of a path is dropped.
[[nodiscard]] ParsedSubject parse_subject(std::string_view text);

// `topic:NAME` or `fs:PATH:OP` (E-26). Wildcards in a published path are ordinary characters.
[[nodiscard]] ParsedEventSubject parse_event_subject(std::string_view text);

// `topic:NAME` or `fs:PATH` with OP apart (E-27).
[[nodiscard]] ParsedEventSubject parse_event_subject(std::string_view text, std::string_view op);

// An absolute, normalised path without control characters, as `from` must be; nullopt when it is not.
[[nodiscard]] std::optional<std::string> normalised_path(std::string_view path);

// The event's own text: `topic:NAME` or `fs:PATH:OP` (E-28).
[[nodiscard]] std::string event_subject_text(const EventSubject& event);

// True when the subscription wants the event (E-14 to E-16); a move is tested at both places.
[[nodiscard]] bool matches(const Subject& subject, const EventSubject& event);

// True when `path` (relative, no leading `/`) matches the glob (E-16).
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view path);

// The one index key of a subscription: its kind and its name (E-18).
[[nodiscard]] std::string match_token(const Subject& subject);

// Every index key an event can be found under. `prefix_lengths` are the lengths in bytes of the topic prefixes that
// exist in the store: only those are worth a look-up.
[[nodiscard]] std::vector<std::string> match_tokens(const EventSubject& event,
                                                    const std::vector<std::size_t>& prefix_lengths);

}  // namespace durable
