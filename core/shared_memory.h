// SPDX-License-Identifier: BSD-2-Clause
// Memory that every worker maps at the same address, and the proof of holding its lock.
// The objects here are private to a worker; only the blocks they hand out are shared.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace durable {

// Keeps the compiler from moving stores across it. A worker may be killed between any two of them:
// what has to be found done by whoever comes next stands before it.
inline void keep_store_order() noexcept { std::atomic_signal_fence(std::memory_order_acq_rel); }

// Implemented over nginx's slab pool, and over the heap in the unit tests.
class SharedMemory {
public:
    virtual void lock() noexcept = 0;
    virtual void unlock() noexcept = 0;
    // Needs the lock. Returns nullptr when the memory is full.
    virtual void* allocate(std::size_t bytes) noexcept = 0;
    // Needs the lock. `block` comes from allocate().
    virtual void release(void* block) noexcept = 0;

protected:
    ~SharedMemory() = default;
};

// Holds the lock and is the proof of it: whoever touches records takes one as argument.
// Not recursive. Under it: no logging, no system call, no callback, no unbounded loop.
class SharedLock {
public:
    explicit SharedLock(SharedMemory& memory) noexcept : memory_(memory) { memory_.lock(); }
    ~SharedLock() { memory_.unlock(); }
    SharedLock(const SharedLock&) = delete;
    SharedLock& operator=(const SharedLock&) = delete;

    // Makes a record followed by `extra` bytes of its own; nullptr when the memory is full.
    template <class Record>
    [[nodiscard]] Record* create(std::size_t extra = 0) const noexcept {
        static_assert(std::is_standard_layout_v<Record>, "a record has no virtual functions");
        static_assert(std::is_trivially_destructible_v<Record>, "a record owns no heap memory");
        void* block = memory_.allocate(sizeof(Record) + extra);
        return block == nullptr ? nullptr : new (block) Record{};
    }
    void destroy(void* record) const noexcept { memory_.release(record); }

private:
    SharedMemory& memory_;
};

}  // namespace durable
