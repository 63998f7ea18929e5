// Mixes an entry of the logbook, a number, into the cells.
#include "logbook.h"

KERNEL void enter(unsigned* cells, unsigned entry) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = entered(cells[at], at, entry);
}
