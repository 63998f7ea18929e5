#pragma once

#include <cstdint>

#include "device.h"

constexpr unsigned kWords = 512;

BOTH uint64_t folded(uint64_t sum, uint64_t word, unsigned at) {
  return sum * 6364136223846793005u + (word ^ at);
}
