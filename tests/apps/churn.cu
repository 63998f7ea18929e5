// Kernels over blocks of memory that come and go.
#include "churn.h"

// Rows of `width` words, `pitch` bytes apart; the other block is read cyclically.
KERNEL void stir(unsigned* words, unsigned long long pitch, unsigned width, unsigned height,
                 const unsigned* other, unsigned other_count, unsigned salt) {
  const unsigned at = global_index();
  if (at >= width * height) return;
  char* row = reinterpret_cast<char*>(words) + at / width * pitch;
  unsigned* word = reinterpret_cast<unsigned*>(row) + at % width;
  *word = stirred(*word, other[at % other_count], salt);
}
