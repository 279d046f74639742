// SPDX-License-Identifier: BSD-2-Clause
// A zone's memory that a forked process shares, for killing that process. Its own bookkeeping is
// sound at every store: a death in between loses a block at most. So what a test finds broken is
// the zone's fault. Its whole state can be copied out and put back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shared_memory.h"

namespace durable {

class ArenaMemory final : public SharedMemory {
public:
    explicit ArenaMemory(std::size_t bytes);
    ~ArenaMemory();
    ArenaMemory(const ArenaMemory&) = delete;
    ArenaMemory& operator=(const ArenaMemory&) = delete;

    void lock() noexcept override;
    void unlock() noexcept override;
    void* allocate(std::size_t bytes) noexcept override;
    void release(void* block) noexcept override;

    // From now on this process, not those it shares the memory with, traps whenever it has the lock.
    void trap_at_lock() noexcept { traps_at_lock_ = true; }
    bool is_locked() const noexcept;
    // What the master does when a worker dies.
    void force_unlock() noexcept;
    bool is_live(const void* block) const noexcept;

    // Blocks that were allocated but are reached from nowhere are these less the reachable ones.
    std::size_t live_blocks() const noexcept;

    // The part in use, to be put back with `restore`.
    std::vector<char> save() const;
    void restore(const std::vector<char>& saved) noexcept;
    bool equals(const std::vector<char>& saved) const noexcept;

private:
    struct Header;
    struct Block;
    Header& header() const noexcept { return *reinterpret_cast<Header*>(base_); }

    char* base_;
    std::size_t bytes_;
    bool traps_at_lock_ = false;
};

}  // namespace durable
