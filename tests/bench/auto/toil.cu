// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/device.h"

// Computes for `turns`, from what the last step left, and leaves a word for each thread.
KERNEL void toil(unsigned* words, unsigned count, unsigned step, unsigned turns) {
  const unsigned thread = thread_index();
  unsigned mixed = words[(step * 7919 + thread * 104729) % count] + step;
  for (unsigned i = 0; i < turns; ++i) {
    mixed ^= mixed << 13;
    mixed ^= mixed >> 17;
    mixed ^= mixed << 5;
  }
  words[((step + 1) * 7919 + thread * 104729) % count] += mixed;
}
