// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tiers/staging/layout.h"

namespace gpusnap {

namespace {

// No private futex: the word may be in shared memory. No robust list and no owner: a process that
// dies while it waits leaves nothing, and the server finds a process that dies before it rings.
long futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* longest) {
  return ::syscall(SYS_futex, &word, operation, value, longest, nullptr, 0);
}

}  // namespace

void Doorbell::ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  futex(rings_, FUTEX_WAKE, INT32_MAX, nullptr);
}

void Doorbell::wait(uint32_t seen, int64_t longest_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  if (longest_ns <= 0) return;
  const timespec longest{longest_ns / kSecond, longest_ns % kSecond};
  futex(rings_, FUTEX_WAIT, seen, &longest);
}

}  // namespace gpusnap
