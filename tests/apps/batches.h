#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

BOTH unsigned stepped(unsigned value, unsigned at, unsigned step) {
  return (value ^ step) * 1664525u + at;
}
