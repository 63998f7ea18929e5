// Reads what nodes of graphs have written.
#include "signal_nodes.h"

KERNEL void gather(uint64_t* sums, const uint64_t* words) {
  const unsigned at = global_index();
  if (at < kWords) sums[at] = gathered(sums[at], words[at], at);
}
