#pragma once

#include "device.h"

constexpr unsigned kCells = 2048;

BOTH unsigned stirred(unsigned value, unsigned with) {
  return (value ^ with) * 0x9e3779b1u + (value >> 7);
}
