// Works on managed memory, wherever it lies at the time.
#include "migrations.h"

KERNEL void move(unsigned* cells, unsigned by) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = moved(cells[at], at, by);
}

KERNEL void fill(unsigned* cells, unsigned by) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = moved(by, at, by);
}
