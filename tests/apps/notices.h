#pragma once

#include "device.h"

constexpr unsigned kCells = 2048;

BOTH unsigned drifted(unsigned value, unsigned at, unsigned by) {
  return (value ^ by) * 1664525u + at;
}
