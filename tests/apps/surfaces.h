#pragma once

#include "device.h"

// In device memory: where the kernel finds the surfaces.
struct Handles {
  unsigned long long from, to, counts;
};

// A cell of the next generation from the four cells around it.
BOTH unsigned grown(unsigned centre, unsigned left, unsigned right, unsigned up, unsigned down) {
  return centre * 1664525u + (left ^ (right << 1)) + (up ^ (down << 2)) + 12345u;
}
