#pragma once

#include "device.h"

constexpr unsigned kSeededCells = 1024;

BOTH unsigned grown(unsigned cell, unsigned noise, unsigned step) {
  cell = (cell ^ noise) * 2654435761u + step;
  return cell << 7 | cell >> 25;
}
