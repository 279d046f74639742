// SPDX-License-Identifier: BSD-2-Clause
#include "core/text_chain.h"

#include <algorithm>
#include <cstring>

namespace durable {

namespace {

// Two texts read as one.
struct Joined {
    std::string_view head, tail;

    void copy(char* out, std::size_t bytes) noexcept {
        const auto from_head = std::min(bytes, head.size());
        if (from_head != 0) std::memcpy(out, head.data(), from_head);
        head.remove_prefix(from_head);
        const auto from_tail = bytes - from_head;
        if (from_tail != 0) std::memcpy(out + from_head, tail.data(), from_tail);
        tail.remove_prefix(from_tail);
    }
};

}  // namespace

bool TextChain::assign(const SharedLock& lock, std::string_view head, std::string_view tail) noexcept {
    *this = TextChain();
    Joined rest{head, tail};
    const auto total = static_cast<std::uint32_t>(head.size() + tail.size());
    TextBlock** link = &first;
    while (size < total) {
        const auto part = std::min(total - size, kBlockBytes);
        auto* block = lock.create<TextBlock>(part);
        if (block == nullptr) {
            release(lock);
            return false;
        }
        rest.copy(block->bytes(), part);
        *link = block;
        link = &block->next;
        size += part;
    }
    return true;
}

void TextChain::release(const SharedLock& lock) noexcept {
    TextBlock* block = first;
    first = nullptr;
    size = 0;
    while (block != nullptr) {
        TextBlock* next = block->next;
        lock.destroy(block);
        block = next;
    }
}

TextBlock* TextChain::append_block(const SharedLock& lock, TextBlock* last, std::string_view part) noexcept {
    auto* block = lock.create<TextBlock>(part.size());
    if (block == nullptr) return nullptr;
    part.copy(block->bytes(), part.size());
    (last == nullptr ? first : last->next) = block;
    size += static_cast<std::uint32_t>(part.size());
    return block;
}

bool TextChain::release_some(const SharedLock& lock, int blocks) noexcept {
    for (; first != nullptr && blocks > 0; --blocks) {
        TextBlock* block = first;
        first = block->next;
        size -= std::min(size, kBlockBytes);
        lock.destroy(block);
    }
    return first != nullptr;
}

void TextChain::append_to(std::string& out, std::uint32_t from) const {
    std::uint32_t left = size;
    for (const TextBlock* block = first; block != nullptr; block = block->next) {
        const auto part = std::min(left, kBlockBytes);
        if (from < part) out.append(block->bytes() + from, part - from);
        from -= std::min(from, part);
        left -= part;
    }
}

}  // namespace durable
