// SPDX-License-Identifier: BSD-2-Clause
// An index over records in the zone, by hash, with a fixed number of buckets that is chosen with
// the zone's size: memory bounds the records, so the chains stay short.
// A Record has the members `Record* hash_next` and `std::uint32_t hash`.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/shared_memory.h"

namespace durable {

// FNV-1a with a final mix. `seed` joins a name to its owner's hash.
inline std::uint32_t hash_bytes(std::string_view bytes, std::uint32_t seed = 0) noexcept {
    std::uint32_t hash = 2166136261u ^ seed;
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 16777619u;
    hash ^= hash >> 15;
    hash *= 0x85ebca6bu;
    return hash ^ (hash >> 13);
}

template <class Record>
class HashIndex {
public:
    // `buckets` is a power of two. False when the memory is full.
    [[nodiscard]] bool init(const SharedLock& lock, std::uint32_t buckets) noexcept {
        buckets_ = static_cast<Record**>(static_cast<void*>(lock.create<char>(buckets * sizeof(Record*))));
        if (buckets_ == nullptr) return false;
        std::memset(static_cast<void*>(buckets_), 0, buckets * sizeof(Record*));
        mask_ = buckets - 1;
        return true;
    }

    void insert(Record& record, std::uint32_t hash) noexcept {
        record.hash = hash;
        record.hash_next = buckets_[hash & mask_];
        keep_store_order();
        buckets_[hash & mask_] = &record;
        keep_store_order();
        ++count_;
    }

    // Harmless for a record that is not in the index.
    void remove(Record& record) noexcept {
        for (Record** link = &buckets_[record.hash & mask_]; *link != nullptr; link = &(*link)->hash_next) {
            if (*link != &record) continue;
            *link = record.hash_next;
            --count_;
            keep_store_order();
            return;
        }
    }

    template <class Match>
    Record* find(std::uint32_t hash, Match&& match) const noexcept {
        for (Record* record = buckets_[hash & mask_]; record != nullptr; record = record->hash_next) {
            if (record->hash == hash && match(*record)) return record;
        }
        return nullptr;
    }

    std::uint32_t count() const noexcept { return count_; }
    std::uint32_t bucket_count() const noexcept { return mask_ + 1; }
    Record* bucket(std::uint32_t index) const noexcept { return buckets_[index]; }

    // For repair alone: forgets every record; counts those in the chains again.
    void clear() noexcept {
        std::memset(static_cast<void*>(buckets_), 0, bucket_count() * sizeof(Record*));
        count_ = 0;
    }
    void recount() noexcept {
        count_ = 0;
        for (std::uint32_t index = 0; index < bucket_count(); ++index) {
            for (Record* record = buckets_[index]; record != nullptr; record = record->hash_next) ++count_;
        }
    }

private:
    Record** buckets_ = nullptr;
    std::uint32_t mask_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace durable
