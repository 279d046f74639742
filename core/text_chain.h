// SPDX-License-Identifier: BSD-2-Clause
// A text in the zone, in blocks of at most one page: the slab rounds sizes up to powers of two, and
// a fragmented zone still has single pages when it has no run of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/shared_memory.h"

namespace durable {

struct TextBlock {
    TextBlock* next = nullptr;
    // followed by the bytes
    char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
    const char* bytes() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};

struct TextChain {
    static constexpr std::uint32_t kBlockBytes = 4096 - sizeof(TextBlock);
    TextBlock* first = nullptr;
    std::uint32_t size = 0;

    // Copies `head` followed by `tail` into the zone. False when it is full; nothing is kept then.
    [[nodiscard]] bool assign(const SharedLock& lock, std::string_view head, std::string_view tail = {}) noexcept;
    void release(const SharedLock& lock) noexcept;

    // For a long text, in several holds of the lock by its only user: adds `part`, full blocks but for the
    // last one, behind the block `last` (nullptr at first), and gives the new one; nullptr when it is full.
    [[nodiscard]] TextBlock* append_block(const SharedLock& lock, TextBlock* last, std::string_view part) noexcept;
    // Frees up to so many blocks from the front. True while some are left.
    bool release_some(const SharedLock& lock, int blocks) noexcept;

    // Copies the bytes from `from` on behind what `out` holds. Needs no lock while the owner is pinned.
    void append_to(std::string& out, std::uint32_t from = 0) const;
    // The whole text where one block holds it, else nothing.
    std::string_view in_one_block() const noexcept {
        return size <= kBlockBytes && first != nullptr ? std::string_view(first->bytes(), size) : std::string_view();
    }
};

}  // namespace durable
