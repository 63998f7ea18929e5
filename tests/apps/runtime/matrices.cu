// Small dense algebra: a product by the tensor cores, an LU decomposition in shared memory, a
// Fourier transform, and half-precision arithmetic. Numbers are such that products and sums are
// exact where hosts and devices may round differently.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>

#include "program.h"

namespace {

constexpr int kSide = 32;
constexpr int kCells = kSide * kSide;
constexpr int kPoints = 256;

__global__ void fill(__half* a, __half* b, uint32_t* states) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = __int2half_rn(static_cast<int>(next_random(states[i]) % 17) - 8);
  b[i] = __int2half_rn(static_cast<int>(next_random(states[i]) % 17) - 8);
}

// One warp for each tile of 16 by 16.
__global__ void multiply(const __half* a, const __half* b, float* c) {
  using namespace nvcuda;
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < kSide; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
    wmma::load_matrix_sync(left, a + row * kSide + k, kSide);
    wmma::load_matrix_sync(right, b + column * kSide + k, kSide);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] * 0.5f;
  wmma::store_matrix_sync(c + row * kSide + column, sum, kSide, wmma::mem_row_major);
}

// In place, without pivots: the diagonal is made large.
__host__ __device__ inline float start_of(float value, int row, int column) {
  return row == column ? 4096.0f + value : value;
}
__global__ void decompose(const float* c, float* lu) {
  __shared__ float m[kSide][kSide + 1];
  const int column = threadIdx.x;
  for (int row = 0; row < kSide; ++row) {
    m[row][column] = start_of(c[row * kSide + column], row, column);
  }
  __syncthreads();
  for (int pivot = 0; pivot < kSide; ++pivot) {
    for (int row = pivot + 1; row < kSide; ++row) {
      const float factor = m[row][pivot] / m[pivot][pivot];
      __syncthreads();
      if (column == pivot) m[row][pivot] = factor;
      if (column > pivot) m[row][column] = m[row][column] - factor * m[pivot][column];
      __syncthreads();
    }
  }
  for (int row = 0; row < kSide; ++row) lu[row * kSide + column] = m[row][column];
}

struct Complex {
  double re, im;
};
__host__ __device__ inline void butterfly(Complex& a, Complex& b, const Complex& w) {
  const Complex t{b.re * w.re - b.im * w.im, b.re * w.im + b.im * w.re};
  b = {a.re - t.re, a.im - t.im};
  a = {a.re + t.re, a.im + t.im};
}
__host__ __device__ inline int reversed(int i) {
  int r = 0;
  for (int bit = 1; bit < kPoints; bit *= 2) r = r * 2 + ((i & bit) != 0 ? 1 : 0);
  return r;
}

// kPoints / 2 threads; the roots of one come from the host.
__global__ void transform(const float* lu, const Complex* roots, Complex* out) {
  extern __shared__ Complex point[];
  const int t = threadIdx.x;
  for (int i = t; i < kPoints; i += kPoints / 2) point[reversed(i)] = {lu[i], lu[i + kPoints]};
  for (int half = 1; half < kPoints; half *= 2) {
    __syncthreads();
    const int at = t / half * half * 2 + t % half;
    butterfly(point[at], point[at + half], roots[t % half * (kPoints / 2 / half)]);
  }
  __syncthreads();
  for (int i = t; i < kPoints; i += kPoints / 2) out[i] = point[i];
}

// Pairs of half-precision values, in both formats.
__global__ void halves(const float* c, uint32_t* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = c[2 * i] * 0.25f, y = c[2 * i + 1] * 0.125f;
  const __half2 h = __floats2half2_rn(x, y);
  const __nv_bfloat162 b = __floats2bfloat162_rn(x, y);
  const __half2 r = __hadd2(__hmul2(h, h), __hmax2(h, __lowhigh2highlow(h)));
  const __nv_bfloat162 s = __hmax2(__hneg2(b), b);
  uint32_t words[2];
  memcpy(&words[0], &r, sizeof r);
  memcpy(&words[1], &s, sizeof s);
  const uint32_t less = __hlt(__low2half(h), __high2half(h)) ? 1 : 0;
  out[i] = words[0] * 31 + words[1] * 7 + less;
}

struct Host {
  std::vector<uint32_t> states;
  std::vector<float> a, b, c, lu;
  std::vector<Complex> points;
};

void step_on_host(Host& h, const std::vector<Complex>& roots) {
  for (int i = 0; i < kCells; ++i) {
    h.a[i] = static_cast<float>(static_cast<int>(next_random(h.states[i]) % 17) - 8);
    h.b[i] = static_cast<float>(static_cast<int>(next_random(h.states[i]) % 17) - 8);
  }
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      float sum = 0;
      for (int k = 0; k < kSide; ++k) sum += h.a[row * kSide + k] * h.b[column * kSide + k];
      h.c[row * kSide + column] = sum * 0.5f;
      h.lu[row * kSide + column] = start_of(sum * 0.5f, row, column);
    }
  }
  for (int pivot = 0; pivot < kSide; ++pivot) {
    for (int row = pivot + 1; row < kSide; ++row) {
      const float factor = h.lu[row * kSide + pivot] / h.lu[pivot * kSide + pivot];
      h.lu[row * kSide + pivot] = factor;
      for (int column = pivot + 1; column < kSide; ++column) {
        h.lu[row * kSide + column] -= factor * h.lu[pivot * kSide + column];
      }
    }
  }
  for (int i = 0; i < kPoints; ++i) h.points[reversed(i)] = {h.lu[i], h.lu[i + kPoints]};
  for (int half = 1; half < kPoints; half *= 2) {
    for (int t = 0; t < kPoints / 2; ++t) {
      const int at = t / half * half * 2 + t % half;
      butterfly(h.points[at], h.points[at + half], roots[t % half * (kPoints / 2 / half)]);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 200);
  Host host{std::vector<uint32_t>(kCells), std::vector<float>(kCells),
            std::vector<float>(kCells),    std::vector<float>(kCells),
            std::vector<float>(kCells),    std::vector<Complex>(kPoints)};
  for (int i = 0; i < kCells; ++i) host.states[i] = static_cast<uint32_t>(i) * 7919u;
  std::vector<Complex> host_roots(kPoints / 2);
  for (int i = 0; i < kPoints / 2; ++i) {
    const double angle = -2 * 3.14159265358979323846 * i / kPoints;
    host_roots[i] = {std::cos(angle), std::sin(angle)};
  }
  uint32_t* states = upload(host.states);
  Complex* roots = upload(host_roots);
  auto *a = allocate<__half>(kCells), *b = allocate<__half>(kCells);
  auto *c = allocate<float>(kCells), *lu = allocate<float>(kCells);
  auto* points = allocate<Complex>(kPoints);
  auto* words = allocate<uint32_t>(kCells / 2);

  for (int step = 1; step <= steps; ++step) {
    fill<<<kCells / 128, 128>>>(a, b, states);
    multiply<<<dim3(kSide / 16, kSide / 16), 32>>>(a, b, c);
    decompose<<<1, kSide>>>(c, lu);
    transform<<<1, kPoints / 2, kPoints * sizeof(Complex)>>>(lu, roots, points);
    halves<<<kCells / 256, 128>>>(c, words);
    CHECK_LAUNCH();
    step_on_host(host, host_roots);
    if (step % 3 == 0) {
      const Complex first = fetch(points, 1)[0];
      std::printf("step %d point %.17g %.17g words %016llx\n", step, first.re, first.im,
                  static_cast<unsigned long long>(hash_of(fetch(words, kCells / 2))));
    }
  }
  expect_same("product", fetch(c, kCells), host.c);
  expect_same("decomposition", fetch(lu, kCells), host.lu);
  expect_same("point", fetch(points, kPoints), host.points);
  return finish();
}
