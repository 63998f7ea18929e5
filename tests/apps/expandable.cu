// A vector over many pieces of physical memory, which one pointer reaches.
#include "expandable.h"

KERNEL void seed(unsigned* piece, unsigned salt) {
  const unsigned cell = global_index();
  if (cell < kCells) piece[word_of(cell)] = salt * 977u + cell;
}

// Beside each cell: what it is to be.
KERNEL void stir(unsigned* vector, unsigned pieces, unsigned salt) {
  const unsigned cell = global_index(), cells = pieces * kCells;
  if (cell >= cells) return;
  unsigned* own = vector + word_of(cell);
  own[1] = stirred(own[0], vector[word_of((cell + 1) % cells)], salt);
}

KERNEL void settle(unsigned* vector, unsigned pieces) {
  const unsigned cell = global_index();
  if (cell >= pieces * kCells) return;
  unsigned* own = vector + word_of(cell);
  own[0] = own[1];
}

KERNEL void gather(const unsigned* vector, unsigned pieces, unsigned* cells) {
  const unsigned cell = global_index();
  if (cell < pieces * kCells) cells[cell] = vector[word_of(cell)];
}
