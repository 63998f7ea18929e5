// A kernel of which the half is defined in another text.
#include "linked.h"

extern DEVICE unsigned steps_taken;
extern "C" DEVICE unsigned with_salt(unsigned value);

// Its own, as another of the same name is the other text's.
static DEVICE unsigned seeds[4] = {3, 5, 7, 11};

extern "C" DEVICE __attribute__((noinline)) unsigned with_seed(unsigned value, unsigned at) {
  return turned(value, seeds[at % 4]);
}

KERNEL void take_step(unsigned* cells) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = with_salt(with_seed(cells[at], at));
}

KERNEL void count_step() {
  if (global_index() != 0) return;
  steps_taken += 1;
  seeds[steps_taken % 4] += 2;
}
