#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

BOTH float blended(float value, unsigned at, float weight, unsigned turn) {
  return value * weight + static_cast<float>((at ^ turn) % 1000);
}
