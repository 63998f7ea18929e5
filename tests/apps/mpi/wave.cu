// A string of cells, with one more at either end that belongs to a neighbour or to nobody.
#include "tests/apps/mpi/wave.h"

KERNEL void advance(const double* before, const double* now, double* next, unsigned cells,
                    double rate) {
  const unsigned at = global_index() + 1;
  if (at > cells) return;
  next[at] = moved_on(before[at], now[at], now[at - 1], now[at + 1], rate);
}

KERNEL void ends(const double* now, unsigned cells, double* two) {
  two[0] = now[1];
  two[1] = now[cells];
}

KERNEL void extend(double* now, unsigned cells, double left, double right) {
  now[0] = left;
  now[cells + 1] = right;
}

// One thread: the sum of what the cells hold, each times its place, and the greatest amplitude. The
// sum is that of the whole string, when it is added up over its parts, and far from any overflow.
KERNEL void measure(const double* now, unsigned cells, unsigned first, unsigned long long* digest,
                    double* greatest) {
  unsigned long long sum = 0;
  double most = 0;
  for (unsigned at = 1; at <= cells; ++at) {
    const double value = now[at];
    const auto bits = __builtin_bit_cast(unsigned long long, value);
    sum += ((bits ^ (bits >> 32)) & 0xffffffffu) * (first + at);
    const double size = value < 0 ? -value : value;
    most = size > most ? size : most;
  }
  *digest = sum;
  *greatest = most;
}
