#pragma once

#include "device.h"

constexpr unsigned kLanes = 32;
constexpr unsigned kLaneValues = 16384;
constexpr unsigned kWarpThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

BOTH unsigned drawn(unsigned value) {
  value ^= value << 13;
  value ^= value >> 17;
  return value ^ (value << 5);
}
