#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

// A kernel's change to a cell: all earlier values stay in it, and the number of threads of the
// block goes into it.
BOTH unsigned kept(unsigned cell, unsigned word, unsigned threads) {
  return (cell ^ word) * 2654435761u + (cell >> 11) + threads;
}
