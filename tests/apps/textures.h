#pragma once

#include "device.h"

constexpr int kSide = 32;       // of the field
constexpr int kLevelSide = 16;  // of the first level
constexpr int kLevels = 3;
constexpr int kWeights = 64;
constexpr int kCubes = 2;
constexpr int kFaces = 6 * kCubes;
constexpr int kFaceSide = 4;

// Whole numbers only, small enough for any filter to be exact.
BOTH float mixed(float sum_of_four, float level, unsigned weight, float of_face, int x) {
  const unsigned value = static_cast<unsigned>(sum_of_four) + 3 * static_cast<unsigned>(level) +
                         weight + 5 * static_cast<unsigned>(of_face) + static_cast<unsigned>(x);
  return static_cast<float>(value % 1024);
}
