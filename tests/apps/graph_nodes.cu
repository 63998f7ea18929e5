// The kernels of the graphs.
#include "graph_nodes.h"

KERNEL void stir(unsigned* cells, unsigned count, unsigned with) {
  const unsigned at = global_index();
  if (at < count) cells[at] = stirred(cells[at], with + at);
}
