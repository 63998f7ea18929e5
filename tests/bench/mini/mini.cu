// The kernels of the mini-programs.
#include "mini.h"

// Heat flow: all of `next` is written, a slice of the sources is read.
KERNEL void flow(const Four* heat, Four* next, const Four* source, int width, int height) {
  const int x = static_cast<int>(global_index());
  const int y = static_cast<int>(block_row());
  if (x >= width) return;
  const int at = y * width + x;
  const Four here = heat[at];
  if (y == 0 || y == height - 1) {
    next[at] = here;
    return;
  }
  const float* values = reinterpret_cast<const float*>(heat);
  const float left = x == 0 ? here.x : values[4 * at - 1];
  const float right = x == width - 1 ? here.w : values[4 * at + 4];
  const Four up = heat[at - width], down = heat[at + width], more = source[at];
  next[at] = {0.6f * here.x + 0.1f * (left + here.y + up.x + down.x) + more.x,
              0.6f * here.y + 0.1f * (here.x + here.z + up.y + down.y) + more.y,
              0.6f * here.z + 0.1f * (here.y + here.w + up.z + down.z) + more.z,
              0.6f * here.w + 0.1f * (here.z + right + up.w + down.w) + more.w};
}

// Particles drawn to their partners, which a table names.
KERNEL void drift(const Four* places, Four* moved, Four* speeds, const int* partners, int count) {
  const int self = static_cast<int>(global_index());
  if (self >= count) return;
  Four place = places[self], speed = speeds[self];
  for (int k = 0; k < kPartners; ++k) {
    const Four other = places[partners[k * count + self]];
    speed.x += 0.001f * (other.x - place.x);
    speed.y += 0.001f * (other.y - place.y);
    speed.z += 0.001f * (other.z - place.z);
  }
  place.x += speed.x;
  place.y += speed.y;
  place.z += speed.z;
  moved[self] = place;
  speeds[self] = speed;
}

DEVICE void add_up(double value, double* sums) {
  SHARED double part[kMiniThreads];
  part[thread_index()] = value;
  __syncthreads();
  for (unsigned half = kMiniThreads / 2; half > 0; half /= 2) {
    if (thread_index() < half) part[thread_index()] += part[thread_index() + half];
    __syncthreads();
  }
  if (thread_index() == 0) sums[block_index()] = part[0];
}

// product = matrix * direction, and the parts of direction . product.
KERNEL void multiply(const double* entries, const int* columns, const double* direction,
                     double* product, double* sums, int rows) {
  const int row = static_cast<int>(global_index());
  double value = 0;
  for (int k = 0; k < kEntries; ++k) {
    value += entries[k * rows + row] * direction[columns[k * rows + row]];
  }
  product[row] = value;
  add_up(direction[row] * value, sums);
}

KERNEL void improve(double* solution, double* residual, const double* direction,
                    const double* product, double step, double* sums) {
  const int row = static_cast<int>(global_index());
  solution[row] += step * direction[row];
  const double left = residual[row] - step * product[row];
  residual[row] = left;
  add_up(left * left, sums);
}

KERNEL void turn(double* direction, const double* residual, double weight) {
  const int row = static_cast<int>(global_index());
  direction[row] = residual[row] + weight * direction[row];
}

// A part of the flux: all of it is written, in place. The strength differs from step to step, so
// that no cell comes to rest.
KERNEL void transport(Four* flux, const Four* source, int begin, int end, int sources,
                      float strength) {
  const int at = begin + static_cast<int>(global_index());
  if (at >= end) return;
  const Four from = source[at % sources];
  Four value = flux[at];
  value.x = 0.9f * value.x + strength * from.x;
  value.y = 0.9f * value.y + strength * from.y;
  value.z = 0.9f * value.z + strength * from.z;
  value.w = 0.9f * value.w + strength * from.w;
  flux[at] = value;
}

// Some pages of the blocks that a list names; the rest of the mesh is not touched.
KERNEL void refine(Four* mesh, const int* active, int step) {
  const int block = active[block_row()];
  const int cell = static_cast<int>(global_index());
  const int page = (cell / kPageCells * (kBlockCells / kPageCells / kPagesWritten) + block) %
                   (kBlockCells / kPageCells);
  const int at = block * kBlockCells + page * kPageCells + cell % kPageCells;
  Four value = mesh[at];
  const auto target = static_cast<float>(step % 7);
  value.x += 0.3f * (target - value.x);
  value.y += 0.3f * (target - value.y);
  value.z += 0.3f * (target - value.z);
  value.w += 0.3f * (target - value.w);
  mesh[at] = value;
}
