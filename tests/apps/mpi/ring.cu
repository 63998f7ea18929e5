// The kernels of a rank of the ring, on its cells.
#include "tests/apps/mpi/ring.h"

KERNEL void advance(unsigned* cells, unsigned step) {
  const unsigned at = global_index();
  cells[at] = stirred(cells[at], step * kCells + at);
}

KERNEL void pack(const unsigned* cells, unsigned* message, unsigned count) {
  const unsigned at = global_index();
  if (at < count) message[at] = cells[at % kCells] + at;
}

// One thread a cell; a message may be longer than the cells are many.
KERNEL void absorb(unsigned* cells, const unsigned* message, unsigned count) {
  const unsigned cell = global_index();
  unsigned value = cells[cell];
  for (unsigned at = cell; at < count; at += kCells) value = stirred(value, message[at]);
  cells[cell] = value;
}
