#pragma once

#include "device.h"

constexpr unsigned kCells = 1024;

BOTH unsigned stirred(unsigned value, unsigned given, unsigned task, unsigned round) {
  return ((value << 7 | value >> 25) ^ given) * 2654435761u + task * 31 + round;
}
