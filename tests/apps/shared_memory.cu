// Oscillators in managed memory, driven by forces that the host writes; each block reports into
// mapped host memory.
#include "shared_memory.h"

KERNEL void swing(double* positions, double* speeds, const double* forces, Report* reports,
                  unsigned step) {
  SHARED double largest[kPointThreads];
  SHARED unsigned crossed[kPointThreads];
  const unsigned at = global_index();
  const double before = positions[at];
  double speed = speeds[at];
  const double after = swung(before, speed, forces[at]);
  positions[at] = after;
  speeds[at] = speed;
  largest[thread_index()] = after;
  crossed[thread_index()] = (before < 0) != (after < 0) ? 1 : 0;
  __syncthreads();
  if (thread_index() != 0) return;
  Report report{largest[0], step, crossed[0]};
  for (unsigned other = 1; other < kPointThreads; ++other) {
    if (largest[other] > report.largest) report.largest = largest[other];
    report.crossed += crossed[other];
  }
  reports[block_index()] = report;
}
