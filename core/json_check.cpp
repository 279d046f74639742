// SPDX-License-Identifier: BSD-2-Clause
#include "core/json_check.h"

#include <simdjson.h>

#include <limits>
#include <utility>
#include <variant>
#include <vector>

namespace durable {

static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);

namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_digit(char byte) noexcept { return byte >= '0' && byte <= '9'; }

bool is_hex_digit(char byte) noexcept {
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

bool is_blank(std::string_view text) noexcept { return text.find_first_not_of(" \t\n\r") == std::string_view::npos; }

// The position behind the digits that begin at `at`.
std::size_t skip_digits(std::string_view text, std::size_t at) noexcept {
    while (at < text.size() && is_digit(text[at])) ++at;
    return at;
}

// The position behind the number (RFC 8259, 6) that `text` begins with, 0 if there is none.
std::size_t number_end(std::string_view text) noexcept {
    const auto is_at = [text](std::size_t at, std::string_view set) {
        return at < text.size() && set.find(text[at]) != std::string_view::npos;
    };
    const std::size_t integer = is_at(0, "-") ? 1 : 0;
    std::size_t end = is_at(integer, "0") ? integer + 1 : skip_digits(text, integer);
    if (end == integer) return 0;
    if (is_at(end, ".")) {
        const std::size_t fraction = end + 1;
        end = skip_digits(text, fraction);
        if (end == fraction) return 0;
    }
    if (is_at(end, "eE")) {
        const std::size_t exponent = is_at(end + 1, "+-") ? end + 2 : end + 1;
        end = skip_digits(text, exponent);
        if (end == exponent) return 0;
    }
    return end;
}

// The position behind the escape that begins with the backslash at `at`, 0 if it is none.
std::size_t escape_end(std::string_view text, std::size_t at) noexcept {
    const char kind = at + 1 < text.size() ? text[at + 1] : '\0';
    if (kind != 'u') return std::string_view("\"\\/bfnrt").find(kind) == std::string_view::npos ? 0 : at + 2;
    if (at + 6 > text.size()) return 0;
    for (std::size_t digit = at + 2; digit < at + 6; ++digit) {
        if (!is_hex_digit(text[digit])) return 0;
    }
    return at + 6;
}

// The position behind the string that `text` begins with, 0 if there is none. simdjson has seen to
// UTF-8 and control characters; its own unescaping refuses lone surrogates, which are valid.
std::size_t string_end(std::string_view text) noexcept {
    std::size_t at = 1;
    while (at < text.size() && text[at] != '"') {
        at = text[at] == '\\' ? escape_end(text, at) : at + 1;
        if (at == 0) return 0;
    }
    return at < text.size() ? at + 1 : 0;
}

// `token` reaches to where simdjson saw the next one begin.
bool is_scalar(std::string_view token) noexcept {
    std::size_t end = 0;
    switch (token.empty() ? '\0' : token.front()) {
        case '"': end = string_end(token); break;
        case 't': end = token.substr(0, 4) == "true" ? 4 : 0; break;
        case 'f': end = token.substr(0, 5) == "false" ? 5 : 0; break;
        case 'n': end = token.substr(0, 4) == "null" ? 4 : 0; break;
        default: end = number_end(token); break;
    }
    return end != 0 && is_blank(token.substr(end));
}

}  // namespace

// On-demand checks the structure only as far as it is walked, and holds no stack of its own. It does not look
// at the end of the document either: every move forward is made where a token is known to be left.
class JsonCheck::Walk {
public:
    Walk(std::string_view text, std::size_t capacity) : text_(text) {
        if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) return;
        if (parser_.allocate(text.size(), kMaxJsonDepth + 8) != simdjson::SUCCESS) return;
        const auto padded = simdjson::padded_string_view(text.data(), text.size(), capacity);
        if (parser_.iterate(padded).get(document_) != simdjson::SUCCESS) return;
        result_ = enter_root();
    }

    Result step(std::size_t values) {
        for (; result_ == Result::more && values != 0; --values) result_ = advance();
        return result_;
    }

private:
    using Level = std::variant<ondemand::array_iterator, ondemand::object_iterator>;

    bool at_end() noexcept { return document_.current_location().error() != simdjson::SUCCESS; }

    Result enter_root() {
        std::string_view token;
        if (document_.raw_json_token().get(token) != simdjson::SUCCESS || token.empty()) return Result::invalid;
        if (token.front() == '[' || token.front() == '{') return enter(document_, token.front());
        const bool is_whole = token.data() + token.size() == text_.data() + text_.size();
        return is_whole && is_scalar(token) ? Result::valid : Result::invalid;
    }

    template <class Value>
    Result enter(Value& value, char bracket) {
        if (levels_.size() == kMaxJsonDepth) return Result::invalid;
        return bracket == '[' ? push(value.get_array()) : push(value.get_object());
    }

    template <class Container>
    Result push(simdjson::simdjson_result<Container>&& opened) {
        Container container;
        if (std::move(opened).get(container) != simdjson::SUCCESS) return Result::invalid;
        const auto begin = container.begin();
        if (begin.error() != simdjson::SUCCESS) return Result::invalid;
        levels_.emplace_back(begin.value_unsafe());
        is_entered_ = true;
        return Result::more;
    }

    // Takes one value of the innermost container, or leaves it.
    Result advance() {
        Level& level = levels_.back();
        if (!is_entered_) {
            // The value before is complete, so a comma or a bracket must follow it.
            if (at_end()) return Result::invalid;
            std::visit([](auto& iterator) { ++iterator; }, level);
        }
        is_entered_ = false;
        // One at its end equals any other.
        const bool is_closed = std::visit([](auto& iterator) { return iterator == iterator; }, level);
        if (is_closed) {
            levels_.pop_back();
            if (!levels_.empty()) return Result::more;
            return at_end() ? Result::valid : Result::invalid;
        }
        if (at_end()) return Result::invalid;
        ondemand::value value;
        return value_of(level, value) ? take(value) : Result::invalid;
    }

    bool value_of(Level& level, ondemand::value& value) {
        if (auto* array = std::get_if<ondemand::array_iterator>(&level)) {
            return (**array).get(value) == simdjson::SUCCESS;
        }
        ondemand::field field;
        if ((*std::get<ondemand::object_iterator>(level)).get(field) != simdjson::SUCCESS) return false;
        const char* const name = field.key().raw() - 1;
        value = field.value();
        const std::string_view rest(name, static_cast<std::size_t>(text_.data() + text_.size() - name));
        return string_end(rest) != 0;
    }

    Result take(ondemand::value& value) {
        const std::string_view token = value.raw_json_token();
        if (token.front() == '[' || token.front() == '{') return enter(value, token.front());
        if (!is_scalar(token)) return Result::invalid;
        // Skipping what was not consumed, simdjson takes a string before a colon for a name, in an array too.
        if (token.front() == '"' && value.get_raw_json_string().error() != simdjson::SUCCESS) return Result::invalid;
        return Result::more;
    }

    std::string_view text_;
    ondemand::parser parser_;
    ondemand::document document_;
    std::vector<Level> levels_;
    bool is_entered_ = false;  // the innermost container was opened and none of its values taken
    Result result_ = Result::invalid;
};

JsonCheck::JsonCheck(std::string_view text, std::size_t capacity) : walk_(std::make_unique<Walk>(text, capacity)) {}
JsonCheck::~JsonCheck() = default;

JsonCheck::Result JsonCheck::step(std::size_t values) { return walk_->step(values); }

bool is_valid_json(std::string_view text) {
    const simdjson::padded_string copy(text);
    JsonCheck check({copy.data(), copy.size()}, copy.size() + simdjson::SIMDJSON_PADDING);
    return check.step(std::numeric_limits<std::size_t>::max()) == JsonCheck::Result::valid;
}

}  // namespace durable
