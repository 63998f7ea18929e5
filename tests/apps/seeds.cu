// Cells that go their way from what they were planted with.
#include "seeds.h"

KERNEL void grow(unsigned* cells, const unsigned* noise, unsigned step) {
  const unsigned at = global_index();
  cells[at] = grown(cells[at], noise[at], step);
}
