// SPDX-License-Identifier: Apache-2.0
//
// Acoustic waves and their adjoint. One thread a cell, in rows of blocks.
#include "tests/apps/veloc/adjoint.h"

// The cell's place in a field, or -1 if it is on the edge or beyond.
DEVICE inline int inner_cell(const Section& section) {
  const int x = static_cast<int>(global_index());
  const int y = static_cast<int>(block_row());
  if (x < 1 || y < 1 || x >= section.width - 1 || y >= section.height - 1) return -1;
  return y * section.width + x;
}

DEVICE inline double laplacian(const double* field, int at, int width) {
  return (field[at - 1] + field[at + 1]) + (field[at - width] + field[at + width]) -
         4.0 * field[at];
}

// One explicit step: next = 2 now - before + squared * laplacian(now). `squared` holds each cell's
// velocity, in cells a step, squared.
KERNEL void step(Section section, const double* squared, const double* now, const double* before,
                 double* next) {
  const int at = inner_cell(section);
  if (at < 0) return;
  next[at] = 2.0 * now[at] - before[at] + squared[at] * laplacian(now, at, section.width);
}

// The transpose of step(): here the velocities come before the Laplacian.
KERNEL void step_back(Section section, const double* squared, const double* now,
                      const double* after, double* next) {
  const int at = inner_cell(section);
  if (at < 0) return;
  const int width = section.width;
  const double spread =
      (squared[at - 1] * now[at - 1] + squared[at + 1] * now[at + 1]) +
      (squared[at - width] * now[at - width] + squared[at + width] * now[at + width]) -
      4.0 * (squared[at] * now[at]);
  next[at] = 2.0 * now[at] - after[at] + spread;
}

KERNEL void add(double* field, int at, double value) {
  field[at] += value;
}

// The trace of a field at the receivers, and the transpose of that.
KERNEL void record(Section section, const double* field, double* trace) {
  const int x = static_cast<int>(global_index());
  if (x < section.width) trace[x] = field[kReceiverRow * section.width + x];
}

KERNEL void add_difference(Section section, const double* heard, const double* observed,
                           double* field) {
  const int x = static_cast<int>(global_index());
  if (x < 1 || x >= section.width - 1) return;
  field[kReceiverRow * section.width + x] += heard[x] - observed[x];
}

// One step's part of the derivative with respect to `squared`.
KERNEL void accumulate(Section section, const double* field, const double* adjoint,
                       double* gradient) {
  const int at = inner_cell(section);
  if (at < 0) return;
  gradient[at] += adjoint[at] * laplacian(field, at, section.width);
}
