// A checkpoint's bytes: each word says which checkpoint it belongs to and where it is.
#include "tests/apps/device.h"

DEVICE inline unsigned word_of(unsigned version, unsigned at) {
  return version * 2654435761u + at;
}

KERNEL void fill(unsigned* words, unsigned count, unsigned version) {
  const unsigned step = block_count() * block_size();
  for (unsigned at = global_index(); at < count; at += step) words[at] = word_of(version, at);
}

// Adds the number of wrong words to *wrong.
KERNEL void compare(const unsigned* words, unsigned count, unsigned version, unsigned* wrong) {
  unsigned mine = 0;
  const unsigned step = block_count() * block_size();
  for (unsigned at = global_index(); at < count; at += step) {
    if (words[at] != word_of(version, at)) ++mine;
  }
  if (mine != 0) atomic_add(wrong, mine);
}
