// The part: a function, and a variable that it reads.
#include "tests/oracle/random_device.h"

extern "C" DEVICE unsigned turns;
DEVICE unsigned turns = 7;

extern "C" DEVICE unsigned with_turns(unsigned value) {
  return mixed(value, turns);
}

KERNEL void turn(unsigned by) {
  if (global_index() == 0) turns += by;
}
