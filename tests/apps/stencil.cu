// Heat flow on a plate: one explicit step.
#include "stencil.h"

KERNEL void step(Fields fields) {
  const int x = static_cast<int>(global_index());
  const int y = static_cast<int>(block_row() * block_height() + thread_row());
  if (x >= fields.width || y >= fields.height) return;
  const int at = y * fields.width + x;
  if (x == 0 || y == 0 || x == fields.width - 1 || y == fields.height - 1) {
    fields.next[at] = fields.heat[at];
    return;
  }
  fields.next[at] = relaxed(fields.heat[at], fields.heat[at - 1], fields.heat[at + 1],
                            fields.heat[at - fields.width], fields.heat[at + fields.width],
                            fields.source[at], fields.rate);
}
