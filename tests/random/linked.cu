// A kernel of which a part is in another text.
#include "tests/oracle/random_device.h"

extern "C" DEVICE unsigned with_turns(unsigned value);

KERNEL void turn_words(unsigned* words, unsigned count) {
  for (unsigned i = global_index(); i < count; i += threads()) words[i] = with_turns(words[i]);
}
