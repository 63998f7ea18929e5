// Changes the cells, of which the host is told.
#include "notices.h"

KERNEL void drift(unsigned* cells, unsigned by) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = drifted(cells[at], at, by);
}
