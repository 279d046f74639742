// SPDX-License-Identifier: BSD-2-Clause
// Strict validation of foreign JSON texts of any size (RFC 8259; ): numbers of any size,
// nesting up to kMaxJsonDepth, lone surrogate escapes and repeated names are valid; anything that is
// not UTF-8, a byte order mark and whatever follows the value are not.
// Needs no lock and keeps nothing between calls, so it may run on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace durable {

inline constexpr std::size_t kMaxJsonDepth = 1024;

// So many bytes behind a text must be readable, whatever they hold, for it to be checked in place.
inline constexpr std::size_t kJsonPadding = 64;

// Copies the text. For short ones; also false when memory runs out.
[[nodiscard]] bool is_valid_json(std::string_view text);

// Checks a text in place, and in slices, so that a long one need not hold up an event loop.
class JsonCheck {
public:
    enum class Result { more, valid, invalid };

    // `capacity` is at least text.size() + kJsonPadding: so many bytes are readable from text.data() on.
    // They must stay until the last step. The constructor itself reads the whole text once and notes
    // where its tokens are: 5 to 25 ms for 8 MiB, and 4 bytes of memory for each token.
    JsonCheck(std::string_view text, std::size_t capacity);
    ~JsonCheck();
    JsonCheck(const JsonCheck&) = delete;
    JsonCheck& operator=(const JsonCheck&) = delete;

    // Looks at up to about `values` further values. After another answer than `more` it stays.
    [[nodiscard]] Result step(std::size_t values);

private:
    class Walk;
    std::unique_ptr<Walk> walk_;
};

}  // namespace durable
