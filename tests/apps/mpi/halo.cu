// Jacobi's method on a strip of a plate.
#include "tests/apps/mpi/halo.h"

// One thread a cell of `rows` rows; the outermost columns stay.
KERNEL void relax(Strip strip, int first_row, int rows) {
  const int x = static_cast<int>(global_index());
  const int y = first_row + static_cast<int>(block_row());
  if (x >= strip.width || y >= first_row + rows) return;
  const int at = y * strip.width + x;
  if (x == 0 || x == strip.width - 1) {
    strip.next[at] = strip.heat[at];
    return;
  }
  strip.next[at] = 0.25f * ((strip.heat[at - 1] + strip.heat[at + 1]) +
                            (strip.heat[at - strip.width] + strip.heat[at + strip.width]));
}

// The greatest change of each column, and of them all. No float is negative here: their bits are in
// the order of their values.
KERNEL void change(Strip strip, int first_row, int rows, unsigned* greatest) {
  const int x = static_cast<int>(global_index());
  if (x >= strip.width) return;
  float most = 0;
  for (int y = first_row; y < first_row + rows; ++y) {
    const int at = y * strip.width + x;
    const float difference = strip.next[at] - strip.heat[at];
    const float size = difference < 0 ? -difference : difference;
    most = size > most ? size : most;
  }
  atomic_max(greatest, __builtin_bit_cast(unsigned, most));
}
