// Changes words of any device's memory.
#include "uneven.h"

KERNEL void stir(unsigned* words, unsigned count, unsigned with) {
  const unsigned at = global_index();
  if (at < count) words[at] = stirred(words[at], with, at);
}
