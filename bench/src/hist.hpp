// SPDX-License-Identifier: BSD-2-Clause
// Log-linear histogram of nanosecond values: 64 buckets per power of two, so
// a reported quantile is at most 1.6 % above the true value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

class Hist {
  public:
    Hist() : counts_(60 * 64, 0) {}

    void add(int64_t ns)
    {
        uint64_t v = ns < 0 ? 0 : static_cast<uint64_t>(ns);
        counts_[index(v)]++;
        n_++;
        sum_ += static_cast<double>(v);
        if (v > max_) {
            max_ = v;
        }
    }

    uint64_t count() const { return n_; }
    uint64_t max() const { return max_; }
    double mean() const { return n_ ? sum_ / static_cast<double>(n_) : 0.0; }

    // Upper edge of the bucket that holds the q-quantile.
    uint64_t quantile(double q) const
    {
        if (n_ == 0) {
            return 0;
        }
        uint64_t rank = static_cast<uint64_t>(q * static_cast<double>(n_) + 0.999999);
        if (rank < 1) {
            rank = 1;
        }
        if (rank > n_) {
            rank = n_;
        }
        uint64_t seen = 0;
        for (size_t i = 0; i < counts_.size(); i++) {
            seen += counts_[i];
            if (seen >= rank) {
                uint64_t e = upper(i);
                return e < max_ ? e : max_;
            }
        }
        return max_;
    }

  private:
    static size_t index(uint64_t v)
    {
        if (v < 64) {
            return static_cast<size_t>(v);
        }
        int e = 63 - __builtin_clzll(v);
        return static_cast<size_t>(e - 5) * 64 + ((v >> (e - 6)) & 63);
    }

    static uint64_t upper(size_t i)
    {
        if (i < 64) {
            return i;
        }
        uint64_t e = i / 64 + 5;
        uint64_t sub = i % 64;
        return ((64 + sub + 1) << (e - 6)) - 1;
    }

    std::vector<uint64_t> counts_;
    uint64_t n_ = 0;
    uint64_t max_ = 0;
    double sum_ = 0;
};
