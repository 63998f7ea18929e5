#pragma once

#include "device.h"

constexpr unsigned kCells = 4096;

BOTH unsigned turned(unsigned value, unsigned by) {
  return (value << (by & 31)) | (value >> ((32 - by) & 31));
}
