// Conjugate gradients. Each iteration's reductions come back to the host, which decides from them
// whether to go on: what the host learns from the device steers the program.
#include <cmath>

#include "program.h"

namespace {

constexpr int kSide = 48;
constexpr int kUnknowns = kSide * kSide;
constexpr int kThreads = 128;
constexpr int kBlocks = kUnknowns / kThreads;
constexpr double kTolerance = 1e-9;
constexpr int kMostIterations = 400;

__host__ __device__ inline double row_times(const double* x, int i) {
  const int column = i % kSide;
  const int row = i / kSide;
  double sum = (4.0 + 0.01 * (i % 7)) * x[i];
  if (column > 0) sum -= x[i - 1];
  if (column < kSide - 1) sum -= x[i + 1];
  if (row > 0) sum -= x[i - kSide];
  if (row < kSide - 1) sum -= x[i + kSide];
  return sum;
}

__global__ void multiply(const double* x, double* y) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  y[i] = row_times(x, i);
}

// One partial sum a block, added up in a fixed order.
__global__ void dot(const double* a, const double* b, double* partial) {
  __shared__ double sums[kThreads];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  sums[threadIdx.x] = a[i] * b[i];
  for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
}

// y = x + factor * y, or y = y + factor * x.
__global__ void scale_and_add(double factor, const double* x, double* y, bool scale_target) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  y[i] = scale_target ? x[i] + factor * y[i] : y[i] + factor * x[i];
}

struct OnDevice {
  double* x = allocate<double>(kUnknowns);
  double* r = allocate<double>(kUnknowns);
  double* p = allocate<double>(kUnknowns);
  double* q = allocate<double>(kUnknowns);
  double* partial = allocate<double>(kBlocks);

  void start(const std::vector<double>& b) {
    CHECK(cudaMemset(x, 0, kUnknowns * sizeof(double)));
    CHECK(cudaMemcpy(r, b.data(), kUnknowns * sizeof(double), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(p, r, kUnknowns * sizeof(double), cudaMemcpyDeviceToDevice));
  }
  double product(const double* a, const double* b) {
    dot<<<kBlocks, kThreads>>>(a, b, partial);
    CHECK_LAUNCH();
    double sum = 0;
    for (const double value : fetch(partial, kBlocks)) sum += value;
    return sum;
  }
  void multiply_p() {
    multiply<<<kBlocks, kThreads>>>(p, q);
    CHECK_LAUNCH();
  }
  void add(double factor, const double* from, double* to, bool scale_target) {
    scale_and_add<<<kBlocks, kThreads>>>(factor, from, to, scale_target);
    CHECK_LAUNCH();
  }
};

struct OnHost {
  std::vector<double> x_, r_, p_, q_;
  double *x, *r, *p, *q;

  void start(const std::vector<double>& b) {
    x_.assign(kUnknowns, 0);
    q_.assign(kUnknowns, 0);
    r_ = p_ = b;
    x = x_.data(), r = r_.data(), p = p_.data(), q = q_.data();
  }
  double product(const double* a, const double* b) {
    double total = 0;
    for (int block = 0; block < kBlocks; ++block) {
      double sums[kThreads];
      for (int i = 0; i < kThreads; ++i)
        sums[i] = a[block * kThreads + i] * b[block * kThreads + i];
      for (int half = kThreads / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
      }
      total += sums[0];
    }
    return total;
  }
  void multiply_p() {
    for (int i = 0; i < kUnknowns; ++i) q[i] = row_times(p, i);
  }
  void add(double factor, const double* from, double* to, bool scale_target) {
    for (int i = 0; i < kUnknowns; ++i) {
      to[i] = scale_target ? from[i] + factor * to[i] : to[i] + factor * from[i];
    }
  }
};

// Returns the number of iterations; `report(iteration, residual)` hears of each.
template <class Machine, class Report>
int solve(Machine& machine, const std::vector<double>& b, const Report& report) {
  machine.start(b);
  double square = machine.product(machine.r, machine.r);
  int iteration = 0;
  while (std::sqrt(square) > kTolerance && iteration < kMostIterations) {
    machine.multiply_p();
    const double alpha = square / machine.product(machine.p, machine.q);
    machine.add(alpha, machine.p, machine.x, false);
    machine.add(-alpha, machine.q, machine.r, false);
    const double next = machine.product(machine.r, machine.r);
    machine.add(next / square, machine.r, machine.p, true);
    square = next;
    report(++iteration, std::sqrt(square));
  }
  return iteration;
}

}  // namespace

int main(int argc, char** argv) {
  const int solves = steps_of(argc, argv, 25);
  OnDevice device;
  OnHost host;
  std::vector<double> b(kUnknowns);
  for (int i = 0; i < kUnknowns; ++i) b[i] = (i * 37 % 101) / 101.0;
  for (int number = 1; number <= solves; ++number) {
    const int iterations = solve(device, b, [](int iteration, double residual) {
      if (iteration % 4 == 0) std::printf("iteration %d residual %a\n", iteration, residual);
    });
    const std::vector<double> x = fetch(device.x, kUnknowns);
    const int expected = solve(host, b, [](int, double) {});
    if (iterations != expected) {
      std::printf("FAILED: %d iterations, the host needs %d\n", iterations, expected);
      return 2;
    }
    expect_same("solution", x, host.x_);
    std::printf("solve %d iterations %d solution %016llx\n", number, iterations,
                static_cast<unsigned long long>(hash_of(x)));
    // The next right-hand side grows out of this solution.
    for (int i = 0; i < kUnknowns; ++i) b[i] = 0.5 * b[i] + x[kUnknowns - 1 - i];
  }
  for (double* memory : {device.x, device.r, device.p, device.q, device.partial}) {
    CHECK(cudaFree(memory));
  }
  return finish();
}
