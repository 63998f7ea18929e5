// The work of a task on its cells.
#include "errands.h"

KERNEL void stir(unsigned* cells, const unsigned* given, unsigned task, unsigned round) {
  const unsigned at = global_index();
  cells[at] = stirred(cells[at], given[at % 64], task, round);
}
