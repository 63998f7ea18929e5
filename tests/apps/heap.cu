// Adds up the words that the host has set.
#include "heap.h"

KERNEL void add_up(const unsigned* words, unsigned count, unsigned* total) {
  const unsigned threads = block_count() * block_size();
  for (unsigned at = global_index() * kSetEvery; at < count; at += threads * kSetEvery) {
    atomic_add(total, words[at]);
  }
}
