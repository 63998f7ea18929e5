// The kernels of `aware`: they work on words that MPI takes from the device and puts there.
#include "tests/apps/mpi/aware.h"

DEVICE unsigned table[kTable];

// One thread a cell.
KERNEL void advance(unsigned* cells, unsigned step) {
  const unsigned at = global_index();
  cells[at] = stirred(cells[at], step * kCells + at);
}

KERNEL void pack(const unsigned* cells, unsigned* words, unsigned count, unsigned salt) {
  const unsigned at = global_index();
  if (at < count) words[at] = cells[at % kCells] + salt * at;
}

// One thread a cell; there may be more words than cells.
KERNEL void absorb(unsigned* cells, const unsigned* words, unsigned count) {
  const unsigned cell = global_index();
  unsigned value = cells[cell];
  for (unsigned at = cell; at < count; at += kCells) value = stirred(value, words[at]);
  cells[cell] = value;
}

// The sum does not depend on the order in which words are added.
KERNEL void add(unsigned* sum, const unsigned* words, unsigned count, unsigned weight) {
  const unsigned at = global_index();
  if (at < count) sum[at] += words[at] * weight;
}

// The left columns; the others are for what is received.
KERNEL void paint(unsigned* plate, const unsigned* cells, unsigned salt) {
  const unsigned at = global_index();
  const unsigned row = at / kPainted;
  if (row < kRows) plate[row * kWidth + at % kPainted] = cells[at % kCells] ^ salt;
}

KERNEL void write_table(const unsigned* cells, unsigned salt) {
  const unsigned at = global_index();
  if (at < kTable) table[at] = cells[at % kCells] - salt;
}

KERNEL void absorb_table(unsigned* cells) {
  const unsigned cell = global_index();
  if (cell < kTable) cells[cell] = stirred(cells[cell], table[cell]);
}
