#pragma once

#include "device.h"

constexpr unsigned kBoardSide = 128;
constexpr unsigned kCells = kBoardSide * kBoardSide;
constexpr unsigned kRules = 18;  // alive after: [alive now][neighbours]
constexpr unsigned kSeeds = 1024;

BOTH unsigned neighbours(const unsigned char* board, unsigned at) {
  const unsigned x = at % kBoardSide, y = at / kBoardSide;
  const unsigned left = (x + kBoardSide - 1) % kBoardSide, right = (x + 1) % kBoardSide;
  const unsigned up = (y + kBoardSide - 1) % kBoardSide * kBoardSide;
  const unsigned down = (y + 1) % kBoardSide * kBoardSide;
  const unsigned here = y * kBoardSide;
  return board[up + left] + board[up + x] + board[up + right] + board[here + left] +
         board[here + right] + board[down + left] + board[down + x] + board[down + right];
}

BOTH unsigned long long advanced(unsigned long long seed) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^ (seed << 17);
}
