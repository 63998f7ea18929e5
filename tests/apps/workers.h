#pragma once

#include "device.h"

constexpr unsigned kCells = 512;

BOTH unsigned advanced(unsigned value, unsigned noise, unsigned step) {
  return (value ^ noise) * 2654435761u + step;
}

BOTH unsigned absorbed(unsigned value, unsigned message) {
  return (value << 5 | value >> 27) + message;
}
