// SPDX-License-Identifier: Apache-2.0
//
// Measures what an allocation and its free cost together, beside other allocations that stay.
// Prints one line for each size: its name, a tab, nanoseconds. tests/bench/arena.py compares.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace {

constexpr int kBatches = 41;
constexpr int kPairs = 50;    // in a batch
constexpr int kBeside = 200;  // allocations that stay

void must(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "allocation_costs: the driver says %d\n", static_cast<int>(result));
  std::exit(1);
}

// The median batch: some meet other processes.
double pair_of(size_t bytes) {
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int pair = 0; pair < kPairs; ++pair) {
      CUdeviceptr address = 0;
      must(cuMemAlloc_v2(&address, bytes));
      must(cuMemFree_v2(address));
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    batches.push_back(taken.count() / kPairs);
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  must(cuInit(0));
  must(cuCtxCreate_v2(&context, 0, 0));
  for (size_t i = 0; i < kBeside; ++i) {
    CUdeviceptr stays = 0;
    must(cuMemAlloc_v2(&stays, 512 + i * 1000));
  }
  for (const auto& [name, bytes] : {std::pair{"512 bytes", size_t{512}},
                                    {"64 KiB", size_t{64} << 10},
                                    {"1 MiB", size_t{1} << 20},
                                    {"8 MiB", size_t{8} << 20},
                                    {"32 MiB", size_t{32} << 20}}) {
    std::printf("%s\t%.0f\n", name, pair_of(bytes));
  }
  return 0;
}
