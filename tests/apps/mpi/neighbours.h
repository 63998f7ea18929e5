#pragma once

#include "tests/apps/device.h"

// A strip of the plate with a row more on either side. Passed to kernels by value.
struct Strip {
  const float* heat;
  float* next;
  int width;
};

// A kernel's change to a word of a board: every earlier value counts.
BOTH unsigned stirred(unsigned word, unsigned with) {
  return (word ^ with) * 747796405u + 2891336453u;
}
