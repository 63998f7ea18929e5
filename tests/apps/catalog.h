#pragma once

#include "device.h"

constexpr unsigned kCells = 2048;

BOTH unsigned forward(unsigned value, unsigned at) {
  return value * 1664525u + at;
}
BOTH unsigned backward(unsigned value, unsigned at, unsigned by) {
  return (value ^ by) - at * 3;
}
