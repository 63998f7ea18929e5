// The kernels of the workers and the master of `arrival`, on 64-bit words.
#include "tests/apps/mpi/arrival.h"

// One thread a cell.
KERNEL void stir(Word* cells, const Word* state, Word time) {
  const unsigned at = global_index();
  cells[at] = (cells[at] ^ *state) * kFactor + time + at;
}

// One thread.
KERNEL void sum(const Word* cells, Word* value) {
  Word total = 0;
  for (unsigned at = 0; at < kCells; ++at) total += cells[at];
  *value = total;
}

KERNEL void pack(const Word* value, Word* message, unsigned count) {
  const unsigned at = global_index();
  if (at < count) message[at] = *value + at;
}

// One thread: what was folded in first is multiplied the most often.
KERNEL void fold(Word* state, Word value) {
  *state = *state * kFactor + value;
}
