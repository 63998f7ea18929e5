#pragma once

#include "device.h"

constexpr unsigned kCells = 3000;

BOTH unsigned joined(unsigned mine, unsigned theirs, unsigned at) {
  return mine * 7 + (theirs ^ (at << 3));
}
