// The kernels of the graphs' nodes.
#include "graph.h"

KERNEL void turn(unsigned* cells, unsigned count, unsigned by) {
  const unsigned at = global_index();
  if (at < count) cells[at] = turned(cells[at], by) + at;
}

KERNEL void fold(unsigned* sums, const unsigned* left, const unsigned* right) {
  const unsigned at = global_index();
  if (at < kCells / 2) sums[at] = sums[at] * 5 + (left[at] ^ right[at]);
}
