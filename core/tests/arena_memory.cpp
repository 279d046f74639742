// SPDX-License-Identifier: BSD-2-Clause
#include "core/tests/arena_memory.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace durable {

namespace {

constexpr std::uint32_t kLive = 0x11fe11fe;
constexpr std::uint32_t kFree = 0xf4eef4ee;
constexpr int kClasses = 20;

void require(bool holds, const char* rule) noexcept {
    if (holds) return;
    std::fprintf(stderr, "ArenaMemory: %s\n", rule);
    std::abort();
}

int class_of(std::size_t bytes) noexcept {
    int index = 4;
    while ((std::size_t{1} << index) < bytes) ++index;
    return index;
}

}  // namespace

struct ArenaMemory::Block {
    Block* next_free;
    std::uint32_t state;
    std::uint32_t size_class;
};

struct ArenaMemory::Header {
    std::size_t used;
    Block* free_blocks[kClasses + 1];
    bool is_locked;
};

ArenaMemory::ArenaMemory(std::size_t bytes) : bytes_(bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(base != MAP_FAILED, "mmap failed");
    base_ = static_cast<char*>(base);
    header().used = (sizeof(Header) + 15) / 16 * 16;
}

ArenaMemory::~ArenaMemory() { munmap(base_, bytes_); }

void ArenaMemory::lock() noexcept {
    require(!header().is_locked, "the lock is not recursive");
    header().is_locked = true;
    if (traps_at_lock_) raise(SIGTRAP);
}

void ArenaMemory::unlock() noexcept {
    require(header().is_locked, "unlocked twice");
    header().is_locked = false;
}

void* ArenaMemory::allocate(std::size_t bytes) noexcept {
    require(header().is_locked, "allocate needs the lock");
    const int index = class_of(bytes);
    require(index <= kClasses, "block too large");
    Block* block = header().free_blocks[index];
    if (block != nullptr) {
        header().free_blocks[index] = block->next_free;
    } else {
        const std::size_t size = sizeof(Block) + (std::size_t{1} << index);
        if (header().used + size > bytes_) return nullptr;
        block = reinterpret_cast<Block*>(base_ + header().used);
        block->size_class = static_cast<std::uint32_t>(index);
        keep_store_order();
        header().used += size;
    }
    keep_store_order();
    block->state = kLive;
    std::memset(static_cast<void*>(block + 1), 0xa5, bytes);
    return block + 1;
}

void ArenaMemory::release(void* record) noexcept {
    require(header().is_locked, "release needs the lock");
    Block* block = static_cast<Block*>(record) - 1;
    require(block->state == kLive, "released what is not a live block");
    block->state = kFree;
    std::memset(record, 0xdd, std::size_t{1} << block->size_class);
    block->next_free = header().free_blocks[block->size_class];
    keep_store_order();
    header().free_blocks[block->size_class] = block;
}

bool ArenaMemory::is_locked() const noexcept { return header().is_locked; }
void ArenaMemory::force_unlock() noexcept { header().is_locked = false; }

bool ArenaMemory::is_live(const void* record) const noexcept {
    const auto* at = static_cast<const char*>(record);
    if (at < base_ + sizeof(Header) + sizeof(Block) || at >= base_ + header().used) return false;
    return (static_cast<const Block*>(record) - 1)->state == kLive;
}

std::size_t ArenaMemory::live_blocks() const noexcept {
    std::size_t count = 0;
    const char* end = base_ + header().used;
    for (const char* at = base_ + (sizeof(Header) + 15) / 16 * 16; at < end;) {
        const auto* block = reinterpret_cast<const Block*>(at);
        count += block->state == kLive ? 1 : 0;
        at += sizeof(Block) + (std::size_t{1} << block->size_class);
    }
    return count;
}

// A process that is being watched may have written behind `used` already.
std::vector<char> ArenaMemory::save() const { return {base_, base_ + header().used}; }

void ArenaMemory::restore(const std::vector<char>& saved) noexcept { std::memcpy(base_, saved.data(), saved.size()); }

bool ArenaMemory::equals(const std::vector<char>& saved) const noexcept {
    return header().used == saved.size() && std::memcmp(base_, saved.data(), saved.size()) == 0;
}

}  // namespace durable
