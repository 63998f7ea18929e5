// The kernels that a script can launch, each of one block of kThreads.
#include "script.h"

extern "C" {
DEVICE unsigned counter[16];
}

// All words of `to`.
KERNEL void stir(unsigned* to, unsigned words, unsigned with) {
  for (unsigned at = thread_index(); at < words; at += block_size()) {
    to[at] = stirred(to[at], with + at);
  }
}

// `to` from what `from` holds.
KERNEL void mix(unsigned* to, const unsigned* from, unsigned words) {
  for (unsigned at = thread_index(); at < words; at += block_size()) {
    to[at] = stirred(to[at], from[at]);
  }
}

// Through a pointer that lies in device memory.
KERNEL void chase(unsigned* const* table, unsigned words, unsigned with) {
  unsigned* const to = table[0];
  for (unsigned at = thread_index(); at < words; at += block_size()) {
    to[at] = stirred(to[at], with + at);
  }
}

// Likewise: another kernel.
KERNEL void hunt(unsigned* const* table, unsigned words, unsigned with) {
  unsigned* const to = table[0];
  for (unsigned at = thread_index(); at < words; at += block_size()) {
    to[at] = stirred(to[at], at - with);
  }
}

// The same, of which nothing bad is ever heard: the pointer leads to what the argument says, too.
KERNEL void follow(unsigned* const* table, unsigned* to, unsigned words, unsigned with) {
  unsigned* const found = table[0] == to ? table[0] : nullptr;
  for (unsigned at = thread_index(); at < words && found != nullptr; at += block_size()) {
    found[at] = stirred(found[at], with + at);
  }
}

// A variable of the module.
KERNEL void count(unsigned with) {
  counter[thread_index() % 16] = stirred(counter[thread_index() % 16], with);
}

// Does not end before the host says so.
KERNEL void wait_for_host(volatile unsigned* flag) {
  while (thread_index() == 0 && *flag == 0) {
  }
}
