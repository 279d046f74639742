// SPDX-License-Identifier: BSD-2-Clause
#include "core/tests/stepped_process.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace durable {

SteppedProcess::SteppedProcess(const std::function<void()>& body) {
    pid_ = fork();
    if (pid_ == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(3);
        raise(SIGSTOP);
        body();
        _exit(0);
    }
    int status = 0;
    if (pid_ < 0 || waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) {
        pid_ = -1;
        throw std::runtime_error("this system lets no process be traced");
    }
}

SteppedProcess::~SteppedProcess() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

bool SteppedProcess::resume_and_wait(bool is_one_step) {
    int status = 0;
    if (ptrace(is_one_step ? PTRACE_SINGLESTEP : PTRACE_CONT, pid_, nullptr, nullptr) == 0 &&
        waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) {
        return true;
    }
    if (WIFEXITED(status)) {
        has_failed_ = WEXITSTATUS(status) != 0;
        pid_ = -1;
    } else {
        has_failed_ = true;
    }
    return false;
}

}  // namespace durable
