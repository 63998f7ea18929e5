// Changes rows of a tile in a surface, each cell for itself.
#include "tiles.h"

KERNEL void wear(unsigned long long surface, unsigned left, unsigned first, unsigned width,
                 unsigned salt) {
  const unsigned x = global_index();
  const unsigned y = first + block_row() * block_height() + thread_row();
  if (x >= width) return;
  const int column = static_cast<int>(left + x) * 4, row = static_cast<int>(y);
  unsigned value;
  asm volatile("suld.b.2d.b32.trap {%0}, [%1, {%2, %3}];"
               : "=r"(value)
               : "l"(surface), "r"(column), "r"(row));
  asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(surface), "r"(column), "r"(row),
               "r"(worn(value, x, y, salt))
               : "memory");
}
