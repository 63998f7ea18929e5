// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/device.h"

// Nanoseconds, of the device's clock.
DEVICE inline unsigned long long now() {
  unsigned long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// Computes from what the last step left, and leaves a word for each thread. It lasts `microseconds`
// by the clock, not by instructions: so a step takes the same on a machine that is busy.
KERNEL void toil(unsigned* words, unsigned count, unsigned step, unsigned microseconds) {
  const unsigned long long end = now() + 1000ULL * microseconds;
  const unsigned thread = thread_index();
  unsigned mixed = words[(step * 7919 + thread * 104729) % count] + step;
  mixed ^= mixed << 13;
  mixed ^= mixed >> 17;
  mixed ^= mixed << 5;
  while (now() < end) asm volatile("nanosleep.u32 1000;");
  words[((step + 1) * 7919 + thread * 104729) % count] += mixed;
}
