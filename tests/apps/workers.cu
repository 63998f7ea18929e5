// The kernels of a worker, on its cells.
#include "workers.h"

KERNEL void advance(unsigned* cells, const unsigned* noise, unsigned step) {
  const unsigned at = global_index();
  cells[at] = advanced(cells[at], noise[at], step);
}

KERNEL void pack(const unsigned* cells, unsigned* message, unsigned count) {
  const unsigned at = global_index();
  if (at < count) message[at] = cells[at % kCells] + at;
}

// One thread a cell; a message may be longer than the cells are many.
KERNEL void absorb(unsigned* cells, const unsigned* message, unsigned count) {
  const unsigned cell = global_index();
  unsigned value = cells[cell];
  for (unsigned at = cell; at < count; at += kCells) value = absorbed(value, message[at]);
  cells[cell] = value;
}
