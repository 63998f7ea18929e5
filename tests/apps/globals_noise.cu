// A second module: generators that keep their state in a variable and disturb the board.
#include "globals.h"

DEVICE unsigned long long seeds[kSeeds];

KERNEL void plant(unsigned long long seed) {
  seeds[global_index()] = seed * (global_index() + 1) + 1;
}

KERNEL void disturb(unsigned char* board) {
  const unsigned at = global_index();
  unsigned long long seed = seeds[at];
  for (int round = 0; round < 8; ++round) seed = advanced(seed);
  seeds[at] = seed;
  // One generator owns one stretch of the board.
  if (seed % 16 == 0) board[at * (kCells / kSeeds) + (seed >> 32) % (kCells / kSeeds)] ^= 1;
}
