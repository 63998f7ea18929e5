// A kernel for launches of the oldest kind.
#include "legacy.h"

KERNEL void blend(float* cells, unsigned turn, float weight) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = blended(cells[at], at, weight, turn);
}

KERNEL void count(unsigned* counter) {
  if (global_index() == 0) *counter = *counter * 5 + 1;
}
