// Mixes cells with what was brought from the host, and with the size of the block.
#include "keepers.h"

KERNEL void mix(unsigned* cells, const unsigned* brought) {
  const unsigned at = global_index();
  if (at < kCells) cells[at] = kept(cells[at], brought[at], block_size());
}
