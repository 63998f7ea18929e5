// SPDX-License-Identifier: Apache-2.0
#include "loop.h"

KERNEL void turn(unsigned* values, unsigned count, unsigned factor, unsigned more) {
  const unsigned at = global_index();
  if (at < count) values[at] = turned(values[at], factor, more);
}
