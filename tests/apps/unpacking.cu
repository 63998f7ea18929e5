// Reads what was decompressed, and how much it was.
#include "unpacking.h"

KERNEL void mix(unsigned* values, const unsigned* cells, const unsigned* mapped,
                const unsigned* written, unsigned number) {
  const unsigned at = global_index();
  if (at >= kMixed) return;
  values[at] = mixed(values[at], cells[source_of(at, number, kCells)],
                     mapped[source_of(at, number, kChunk)], written[at % kPieces]);
}
