#pragma once

#include "device.h"

constexpr unsigned kSamples = 4096;
constexpr unsigned kTaps = 48;

// One output of a filter over `samples`, which begin kTaps - 1 values before the chunk.
BOTH float filtered(const float* samples, const float* taps, unsigned at) {
  float sum = 0;
  for (unsigned tap = 0; tap < kTaps; ++tap) sum += samples[at + tap] * taps[tap];
  return sum;
}

BOTH unsigned folded(unsigned state, float value) {
  return state * 31 + static_cast<unsigned>(static_cast<int>(value * 1024.0f));
}
