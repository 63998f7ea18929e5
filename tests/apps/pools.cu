// Steps of a computation whose memory is taken and given back in the order of streams.
#include "pools.h"

KERNEL void scatter(const unsigned* state, unsigned* part, unsigned salt) {
  const unsigned at = global_index();
  if (at < kCells) part[at] = mixed(state[at] + salt, at);
}

KERNEL void gather(unsigned* state, const unsigned* first, const unsigned* second) {
  const unsigned at = global_index();
  if (at < kCells) state[at] = state[at] * 3 + (first[at] ^ second[kCells - 1 - at]);
}
