// A cellular automaton that lives in surfaces alone.
#include "surfaces.h"

DEVICE inline unsigned cell(unsigned long long surface, int x, int y) {
  unsigned value;
  asm volatile("suld.b.2d.b32.zero {%0}, [%1, {%2, %3}];"
               : "=r"(value)
               : "l"(surface), "r"(x * 4), "r"(y));
  return value;
}

KERNEL void grow(const Handles* handles) {
  const Handles own = *handles;
  const int x = static_cast<int>(global_index());
  const int y = static_cast<int>(block_row() * block_height() + thread_row());
  const unsigned next =
      grown(cell(own.from, x, y), cell(own.from, x - 1, y), cell(own.from, x + 1, y),
            cell(own.from, x, y - 1), cell(own.from, x, y + 1));
  asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(own.to), "r"(x * 4), "r"(y),
               "r"(next)
               : "memory");
  asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" ::"l"(own.counts),
               "r"(static_cast<int>(next % 16) * 4), "r"(y), "r"(next & 3)
               : "memory");
}
