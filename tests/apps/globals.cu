// A cellular automaton whose whole state is variables of the module.
#include "globals.h"

CONSTANT unsigned char rule[kRules] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
DEVICE unsigned char boards[2][kCells];
DEVICE unsigned generation = 0;
DEVICE unsigned born = 0;
DEVICE unsigned peak = 3;

KERNEL void evolve() {
  const unsigned at = global_index();
  const unsigned char* board = boards[generation & 1];
  const unsigned char alive = rule[9 * board[at] + neighbours(board, at)];
  if (alive != 0 && board[at] == 0) atomic_add(&born, 1);
  boards[(generation + 1) & 1][at] = alive;
}

// By where it lies: only names of constants cannot be written.
KERNEL void change(unsigned char* table) {
  table[6] ^= 1;
}

KERNEL void close_generation() {
  generation += 1;
  atomic_max(&peak, born);
}
