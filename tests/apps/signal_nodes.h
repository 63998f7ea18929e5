#pragma once

#include <cstdint>

#include "device.h"

constexpr unsigned kWords = 256;

BOTH uint64_t gathered(uint64_t sum, uint64_t word, unsigned at) {
  return sum * 2862933555777941757u + (word ^ at);
}
