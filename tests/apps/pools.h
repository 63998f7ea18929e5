#pragma once

#include "device.h"

constexpr unsigned kCells = 6000;

BOTH unsigned mixed(unsigned value, unsigned at) {
  value ^= at * 2654435761u;
  value = (value ^ (value >> 15)) * 2246822519u;
  return value ^ (value >> 13);
}
