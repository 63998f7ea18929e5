// The kernels of a conjugate-gradient solver. Dot products are reduced within a block in shared
// memory; the blocks' sums go to the host, which decides whether to go on.
#include "solver.h"

DEVICE void reduce(double value, double* sums) {
  SHARED double part[kSolverThreads];
  part[thread_index()] = value;
  __syncthreads();
  for (unsigned half = kSolverThreads / 2; half > 0; half /= 2) {
    if (thread_index() < half) part[thread_index()] += part[thread_index() + half];
    __syncthreads();
  }
  if (thread_index() == 0) sums[block_index()] = part[0];
}

// product = A * direction, and the parts of direction . product.
KERNEL void apply(const double* direction, double* product, double* sums) {
  const int at = static_cast<int>(global_index());
  const double value = laplacian(direction, at);
  product[at] = value;
  reduce(direction[at] * value, sums);
}

// solution += step * direction, residual -= step * product, and the parts of residual . residual.
KERNEL void improve(double* solution, double* residual, const double* direction,
                    const double* product, double step, double* sums) {
  const int at = static_cast<int>(global_index());
  solution[at] += step * direction[at];
  const double left = residual[at] - step * product[at];
  residual[at] = left;
  reduce(left * left, sums);
}

// direction = residual + weight * direction
KERNEL void turn(double* direction, const double* residual, double weight) {
  const int at = static_cast<int>(global_index());
  direction[at] = residual[at] + weight * direction[at];
}
