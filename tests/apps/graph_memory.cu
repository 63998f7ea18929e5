// The kernels of the graphs.
#include "graph_memory.h"

KERNEL void grow(unsigned* to, const unsigned* from, unsigned by) {
  const unsigned at = global_index();
  if (at < kCells) to[at] = grown(from[at], by + at);
}

KERNEL void add(unsigned* to, const unsigned* from) {
  const unsigned at = global_index();
  if (at < kCells) to[at] += from[at];
}
