#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

BOTH unsigned grown(unsigned value, unsigned by) {
  return value * 1664525u + by;
}
