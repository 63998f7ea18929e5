#pragma once

#include "device.h"

// A tile's elements have 32 bits.
constexpr unsigned kTileSide = 128;
constexpr unsigned kTileCells = kTileSide * kTileSide;

BOTH unsigned worn(unsigned value, unsigned x, unsigned y, unsigned salt) {
  value = (value ^ (x << 16 | y)) * 2654435761u + salt;
  return value ^ (value >> 13);
}
