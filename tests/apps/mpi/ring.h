#pragma once

#include "tests/apps/device.h"

constexpr unsigned kCells = 8192;

// A kernel's change to a word: every earlier value stays in it.
BOTH unsigned stirred(unsigned word, unsigned with) {
  return (word ^ with) * 2654435761u + (word >> 13);
}
