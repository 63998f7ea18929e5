#pragma once

#include "device.h"

constexpr unsigned kLanes = 1024;

BOTH unsigned stepped(unsigned value, unsigned weight) {
  return value * 1664525u + weight;
}
