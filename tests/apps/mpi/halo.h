#pragma once

#include "tests/apps/device.h"

// A strip of the plate with a row more on either side. Passed to kernels by value.
struct Strip {
  const float* heat;
  float* next;
  int width;
};
