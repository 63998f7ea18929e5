// Small programs that write memory in different patterns, for the benchmark of organisations.
#pragma once

#include "tests/apps/device.h"

struct alignas(16) Four {
  float x, y, z, w;
};

constexpr unsigned kMiniThreads = 256;  // of a block, in every kernel

// Particles: partners of each. Conjugate gradients: entries in a row of the matrix.
constexpr int kPartners = 8;
constexpr int kEntries = 5;

// The adaptive mesh: cells in a block (64 KiB), and of these in a page (4 KiB).
constexpr int kBlockCells = 4096;
constexpr int kPageCells = 256;
constexpr int kPagesWritten = 4;  // of the 16 pages of a block, in one step
