// SPDX-License-Identifier: BSD-2-Clause
// The zone's memory for unit tests: each block is a heap block of its own, so ASan sees every overrun
// and use after free that a slab would hide. Counts live blocks, fails when told to, and insists on
// the lock.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "core/shared_memory.h"

namespace durable {

class HeapMemory final : public SharedMemory {
public:
    ~HeapMemory() {
        for (void* block : blocks_) std::free(block);
    }

    void lock() noexcept override {
        require(!is_locked_, "the lock is not recursive");
        is_locked_ = true;
    }
    void unlock() noexcept override {
        require(is_locked_, "unlocked twice");
        is_locked_ = false;
    }

    void* allocate(std::size_t bytes) noexcept override {
        require(is_locked_, "allocate needs the lock");
        if (fail_after_ == 0) {
            has_failed_ = true;
            return nullptr;
        }
        if (fail_after_ > 0) --fail_after_;
        void* block = std::malloc(bytes);
        std::memset(block, 0xa5, bytes);  // nobody may rely on zeros
        blocks_.insert(block);
        return block;
    }

    void release(void* block) noexcept override {
        require(is_locked_, "release needs the lock");
        require(blocks_.erase(block) == 1, "released what is not a live block");
        std::free(block);
    }

    std::size_t live_blocks() const noexcept { return blocks_.size(); }
    bool owns(const void* block) const noexcept { return blocks_.count(const_cast<void*>(block)) != 0; }

    // The next `count` allocations succeed, all after them fail; -1: none fails.
    void fail_after(int count) noexcept {
        fail_after_ = count;
        has_failed_ = false;
    }
    // Since the last `fail_after`.
    bool has_failed() const noexcept { return has_failed_; }

private:
    // Aborts, as nothing may be thrown through the core.
    static void require(bool holds, const char* rule) noexcept {
        if (holds) return;
        std::fprintf(stderr, "HeapMemory: %s\n", rule);
        std::abort();
    }

    std::set<void*> blocks_;
    int fail_after_ = -1;
    bool has_failed_ = false;
    bool is_locked_ = false;
};

}  // namespace durable
