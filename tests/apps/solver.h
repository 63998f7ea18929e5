#pragma once

#include "device.h"

constexpr int kSide = 64;  // unknowns along one side of the square
constexpr int kUnknowns = kSide * kSide;
constexpr int kSolverThreads = 128;
constexpr int kSolverBlocks = kUnknowns / kSolverThreads;

// One row of the five-point Laplacian applied to `x`.
BOTH double laplacian(const double* x, int at) {
  const int column = at % kSide;
  const int row = at / kSide;
  double sum = 4.0 * x[at];
  if (column > 0) sum -= x[at - 1];
  if (column < kSide - 1) sum -= x[at + 1];
  if (row > 0) sum -= x[at - kSide];
  if (row < kSide - 1) sum -= x[at + kSide];
  return sum;
}
