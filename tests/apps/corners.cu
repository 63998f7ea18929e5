// Small kernels over words, and a variable whose name the other module has as well.
#include "corners.h"

extern "C" {
DEVICE unsigned salt[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
CONSTANT unsigned pepper[4] = {2, 7, 1, 8};
}

KERNEL void mix(unsigned* cells, unsigned step, unsigned rounds) {
  const unsigned at = global_index();
  unsigned value = cells[at];
  for (unsigned round = 0; round < rounds; ++round) {
    value = mixed(value, step + at + salt[(at + round) % 16] + pepper[round % 4]);
  }
  cells[at] = value;
}

// By itself, since every thread of mix reads the salt.
KERNEL void stir(const unsigned* cells) {
  const unsigned at = global_index();
  if (at < 16) salt[at] = mixed(salt[at], cells[at]);
}

// Bytes of shared memory, each second one; the others are the host's.
KERNEL void touch_bytes(unsigned char* bytes, const unsigned* cells, unsigned step) {
  const unsigned at = global_index();
  if (at % 2 == 0) bytes[at] = static_cast<unsigned char>(bytes[at + 1] + cells[at] + step);
}

// Through a pointer that device memory holds.
KERNEL void count_through(unsigned* const* place) {
  if (global_index() == 0) ++**place;
}

// Answers a flag that the host has set, by what it was before.
KERNEL void answer_flag(unsigned* flag, unsigned* count, unsigned* cells) {
  if (global_index() != 0) return;
  if (*flag == 1) *flag = 0;
  cells[0] = mixed(cells[0], ++*count);
}
