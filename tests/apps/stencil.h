#pragma once

#include "device.h"

// Passed to the kernel by value, pointers and all.
struct Fields {
  const float* heat;
  float* next;
  const float* source;
  int width, height;
  float rate;
};

BOTH float relaxed(float centre, float left, float right, float up, float down, float source,
                   float rate) {
  return centre + rate * ((left + right) + (up + down) - 4.0f * centre) + source;
}
