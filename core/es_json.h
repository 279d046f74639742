// SPDX-License-Identifier: BSD-2-Clause
// JSON as ECMAScript reads and writes it (ECMA-262, JSON.parse and JSON.stringify), which cJSON and simdjson do not:
// member order, repeated names, numbers, NUL characters and lone surrogates (kept as WTF-8). For bodies of the events
// API and stored contexts (E-5, E-10). Pure functions; the parser is strict and limits nesting to kMaxJsonDepth.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace durable {

struct EsValue {
    enum class Type { null, boolean, number, string, array, object };

    Type type = Type::null;
    bool boolean = false;
    double number = 0;  // infinite where the text exceeds a double
    std::string text;   // WTF-8
    std::vector<EsValue> items;
    std::vector<std::pair<std::string, EsValue>> members;  // unique, in ECMAScript's order
    std::string_view source;                               // the value's own text within the parsed one

    bool is_null() const noexcept { return type == Type::null; }
    bool is_string() const noexcept { return type == Type::string; }
    bool is_object() const noexcept { return type == Type::object; }
    const EsValue* find(std::string_view name) const noexcept;  // nullptr: no such member
};

// nullopt when the text is not JSON or not UTF-8. `source` members point into `text`.
[[nodiscard]] std::optional<EsValue> parse_es_json(std::string_view text);

// JSON.stringify(value).
[[nodiscard]] std::string write_es_json(const EsValue& value);

// Appends a JSON string with its quotes; lone surrogates of WTF-8 as \udXXX.
void append_es_string(std::string& out, std::string_view wtf8);

// A number as ECMAScript's Number::toString writes it; `null` for what is not finite.
void append_es_number(std::string& out, double number);

// Drops the white space between the tokens of a valid JSON text and changes nothing else, so that it is one line.
[[nodiscard]] std::string compact_json(std::string_view json);

// True when `left` stands before `right` by UTF-16 code units; both are WTF-8.
[[nodiscard]] bool utf16_less(std::string_view left, std::string_view right) noexcept;

}  // namespace durable
