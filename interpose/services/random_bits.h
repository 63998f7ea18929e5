// Random numbers by which processes and runs are told apart.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>

namespace gpusnap {

// By the kernel, past what the program is given when it asks. A process number where it has none.
inline uint64_t random_bits() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) return static_cast<uint64_t>(::getpid());
  return bits;
}

}  // namespace gpusnap
