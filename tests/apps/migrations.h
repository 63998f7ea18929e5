#pragma once

#include "device.h"

constexpr unsigned kCells = 8192;

BOTH unsigned moved(unsigned value, unsigned at, unsigned by) {
  return value * 22695477u + (at ^ by);
}
