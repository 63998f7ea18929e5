// The kernels of a rank, on its own memory and on its neighbours'.
#include "tests/apps/mpi/neighbours.h"

// One thread a cell of `rows` rows; the outermost columns stay.
KERNEL void relax(Strip strip, int rows) {
  const int x = static_cast<int>(global_index());
  const int y = 1 + static_cast<int>(block_row());
  if (x >= strip.width || y > rows) return;
  const int at = y * strip.width + x;
  if (x == 0 || x == strip.width - 1) {
    strip.next[at] = strip.heat[at];
    return;
  }
  strip.next[at] = 0.25f * ((strip.heat[at - 1] + strip.heat[at + 1]) +
                            (strip.heat[at - strip.width] + strip.heat[at + strip.width]));
}

// A row of ours is the outermost one of another rank's strip.
KERNEL void hand_over(const float* row, float* theirs, int width) {
  const int x = static_cast<int>(global_index());
  if (x < width) theirs[x] = row[x];
}

KERNEL void stir(unsigned* board, unsigned words, unsigned with) {
  for (unsigned at = global_index(); at < words; at += block_size() * block_count()) {
    board[at] = stirred(board[at], with + at);
  }
}
