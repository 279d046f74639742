// SPDX-License-Identifier: BSD-2-Clause
// A forked process that is run one instruction at a time where it matters.
#pragma once

#include <sys/types.h>

#include <functional>

namespace durable {

class SteppedProcess {
public:
    // Stands before the first instruction of `body`. Throws when the system refuses.
    explicit SteppedProcess(const std::function<void()>& body);
    ~SteppedProcess();  // kills it
    SteppedProcess(const SteppedProcess&) = delete;
    SteppedProcess& operator=(const SteppedProcess&) = delete;

    // Runs to the next SIGTRAP that it sends itself, or for one instruction. False when the process
    // has ended instead; `has_failed` says how.
    bool run_to_trap() { return resume_and_wait(false); }
    bool step() { return resume_and_wait(true); }
    bool has_failed() const noexcept { return has_failed_; }

private:
    bool resume_and_wait(bool is_one_step);

    pid_t pid_ = -1;
    bool has_failed_ = false;
};

}  // namespace durable
