// Makes what batches of copies then scatter.
#include "batches.h"

KERNEL void advance(unsigned* cells, unsigned step) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = stepped(cells[at], at, step);
}
