#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;
constexpr unsigned kCellThreads = 128;
constexpr unsigned kCellBlocks = kCells / kCellThreads;

// The change that every kernel here makes to a word: all earlier values stay in it.
BOTH unsigned mixed(unsigned value, unsigned with) {
  return (value ^ with) * 2654435761u + (value >> 15);
}
