// Warp intrinsics: shuffles in all directions, votes, ballots, population counts, divergent loops,
// and integer atomics whose result does not depend on their order.
#include <algorithm>

#include "program.h"

namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kBlocks = 32;
constexpr uint32_t kValues = kThreads * kBlocks;
constexpr uint32_t kBins = 256;
constexpr uint32_t kAll = 0xffffffffu;

struct Tallies {
  uint32_t most;
  uint32_t least;
  uint32_t bits;    // or
  uint32_t parity;  // xor
  unsigned long long sum;
};

__global__ void advance(uint32_t* values, uint32_t* bins, Tallies* tallies) {
  __shared__ uint32_t local[kBins];
  for (uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) local[bin] = 0;
  __syncthreads();

  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t value = values[i];

  uint32_t prefix = value;
  for (uint32_t distance = 1; distance < 32; distance *= 2) {
    const uint32_t left = __shfl_up_sync(kAll, prefix, distance);
    if (lane >= distance) prefix += left;
  }
  uint32_t all = value;
  for (int mask = 16; mask > 0; mask /= 2) all ^= __shfl_xor_sync(kAll, all, mask);
  const uint32_t odd = __ballot_sync(kAll, value & 1);
  const uint32_t first = __shfl_sync(kAll, value, __ffs(static_cast<int>(odd | 1u << 31)) - 1);
  const uint32_t next = __shfl_down_sync(kAll, value, 1);
  const bool any = __any_sync(kAll, (value & 0xfff) == 0);
  const bool every = __all_sync(kAll, value % 3 != 0);

  value =
      value * 5 + prefix + (all ^ first) + next + __popc(odd) + (any ? 1000 : 0) + (every ? 77 : 0);
  // Lanes leave this loop at different times and meet again.
  uint32_t rounds = 0;
  for (uint32_t left = value; left > 15 && rounds < 12; left = left / 3 + 1) ++rounds;
  __syncwarp();
  value ^= rounds << __clz(static_cast<int>(value | 1));
  values[i] = value;

  atomicAdd(&local[value % kBins], 1u);
  atomicMax(&tallies->most, value);
  atomicMin(&tallies->least, value);
  atomicOr(&tallies->bits, value & 0xff00ff);
  atomicXor(&tallies->parity, value);
  atomicAdd(&tallies->sum, static_cast<unsigned long long>(value));
  __syncthreads();
  for (uint32_t bin = threadIdx.x; bin < kBins; bin += kThreads) atomicAdd(&bins[bin], local[bin]);
}

void advance_on_host(std::vector<uint32_t>& values, std::vector<uint32_t>& bins, Tallies& tallies) {
  for (uint32_t start = 0; start < kValues; start += 32) {
    uint32_t* lanes = values.data() + start;
    uint32_t all = 0, odd = 0, prefix = 0;
    bool any = false, every = true;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      all ^= lanes[lane];
      odd |= (lanes[lane] & 1) << lane;
      any = any || (lanes[lane] & 0xfff) == 0;
      every = every && lanes[lane] % 3 != 0;
    }
    const uint32_t first = lanes[__builtin_ctz(odd | 1u << 31)];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t value = lanes[lane];
      const uint32_t next = lane == 31 ? value : lanes[lane + 1];
      prefix += value;
      value = value * 5 + prefix + (all ^ first) + next +
              static_cast<uint32_t>(__builtin_popcount(odd)) + (any ? 1000 : 0) + (every ? 77 : 0);
      uint32_t rounds = 0;
      for (uint32_t left = value; left > 15 && rounds < 12; left = left / 3 + 1) ++rounds;
      value ^= rounds << __builtin_clz(value | 1);
      lanes[lane] = value;
      bins[value % kBins] += 1;
      tallies.most = std::max(tallies.most, value);
      tallies.least = std::min(tallies.least, value);
      tallies.bits |= value & 0xff00ff;
      tallies.parity ^= value;
      tallies.sum += value;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 2000);
  std::vector<uint32_t> host_values(kValues), host_bins(kBins, 0);
  uint32_t random = 3;
  for (uint32_t& value : host_values) value = next_random(random);
  Tallies host_tallies{0, ~0u, 0, 0, 0};
  uint32_t* values = upload(host_values);
  uint32_t* bins = upload(host_bins);
  Tallies* tallies = upload(std::vector<Tallies>{host_tallies});

  for (int step = 1; step <= steps; ++step) {
    advance<<<kBlocks, kThreads>>>(values, bins, tallies);
    CHECK_LAUNCH();
    advance_on_host(host_values, host_bins, host_tallies);
    if (step % 3 == 0) CHECK(cudaDeviceSynchronize());
    if (step % 5 == 0) {
      const Tallies found = fetch(tallies, 1)[0];
      std::printf("step %d most %u least %u bits %x parity %x sum %llu\n", step, found.most,
                  found.least, found.bits, found.parity, found.sum);
    }
  }
  const std::vector<uint32_t> result = fetch(values, kValues);
  expect_same("value", result, host_values);
  expect_same("bin", fetch(bins, kBins), host_bins);
  const Tallies found = fetch(tallies, 1)[0];
  expect_same("sum", std::vector<unsigned long long>{found.sum}, {host_tallies.sum});
  expect_same("tally", std::vector<uint32_t>{found.most, found.least, found.bits, found.parity},
              {host_tallies.most, host_tallies.least, host_tallies.bits, host_tallies.parity});
  std::printf("values %016llx\n", static_cast<unsigned long long>(hash_of(result)));
  CHECK(cudaFree(values));
  CHECK(cudaFree(bins));
  CHECK(cudaFree(tallies));
  return finish();
}
