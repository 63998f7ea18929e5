#pragma once

#include "device.h"

constexpr unsigned kCells = 2048;

BOTH unsigned turned(unsigned value, unsigned seed) {
  return (value << 7 | value >> 25) + seed;
}
BOTH unsigned salted(unsigned value, unsigned salt) {
  return value * 2654435761u ^ salt;
}
