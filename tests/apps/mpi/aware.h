#pragma once

#include "tests/apps/device.h"

constexpr unsigned kCells = 4096;            // words of a rank
constexpr unsigned kTable = 3000;            // words of a variable of the module
constexpr unsigned kRows = 64, kWidth = 64;  // of a rank's plate, in words
constexpr unsigned kPainted = kWidth / 2;    // columns that kernels write

// A kernel's change to a word: every earlier value stays in it.
BOTH unsigned stirred(unsigned word, unsigned with) {
  return (word ^ with) * 2654435761u + (word >> 13);
}
