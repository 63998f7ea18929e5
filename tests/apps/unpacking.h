#pragma once

#include "device.h"

constexpr unsigned kChunk = 1024, kPlaces = 64, kCells = kChunk * kPlaces;  // words
constexpr unsigned kMixed = 4096, kPieces = 3;

BOTH unsigned mixed(unsigned value, unsigned cell, unsigned mapped, unsigned written) {
  return value * 1664525u + cell + mapped * 3 + written;
}
// Which cell of so many a value is mixed with.
BOTH unsigned source_of(unsigned at, unsigned number, unsigned cells) {
  return (at * 17 + number * 5) % cells;
}
