// Mass that moves among the cells of a rank. None is made, and none is lost.
#include "tests/apps/mpi/uneven.h"

// One thread a pair of cells, of which the first is `first` or later.
KERNEL void share(unsigned* cells, unsigned count, unsigned first, unsigned round) {
  const unsigned at = first + 2 * global_index();
  if (at + 1 >= count) return;
  const unsigned mass = moved(cells[at], round);
  const unsigned back = moved(cells[at + 1], ~round);
  cells[at] = cells[at] - mass + back;
  cells[at + 1] = cells[at + 1] - back + mass;
}

KERNEL void deposit(unsigned* cells, unsigned at, unsigned mass) {
  cells[at] += mass;
}

KERNEL void weigh(const unsigned* cells, unsigned count, unsigned* total) {
  const unsigned threads = block_size() * block_count();
  unsigned sum = 0;
  for (unsigned at = global_index(); at < count; at += threads) sum += cells[at];
  atomic_add(total, sum);
}
