#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

// What a kernel does to a cell, which knows how many threads its block has: all earlier values stay
// in it.
BOTH unsigned kept(unsigned cell, unsigned word, unsigned threads) {
  return (cell ^ word) * 2654435761u + (cell >> 11) + threads;
}
