// Changes the cells, which host functions look at.
#include "callbacks.h"

KERNEL void drift(unsigned* cells, unsigned by) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = drifted(cells[at], at, by);
}
