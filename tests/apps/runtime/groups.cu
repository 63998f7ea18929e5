// Cooperative groups: barriers over the grid, tiles, groups of lanes that are there, and copies
// into shared memory that go on by themselves.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <algorithm>
#include <cuda/barrier>
#include <utility>

#include "program.h"

namespace {

namespace cg = cooperative_groups;

constexpr uint32_t kThreads = 64;
constexpr uint32_t kBlocks = 12;
constexpr uint32_t kValues = kThreads * kBlocks;
constexpr uint32_t kRounds = 3;

// Each round reads what other blocks have written in the one before.
__global__ void relax(uint32_t* values, uint32_t* other) {
  const cg::grid_group grid = cg::this_grid();
  const auto i = static_cast<uint32_t>(grid.thread_rank());
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t* from = round % 2 == 0 ? values : other;
    uint32_t* to = round % 2 == 0 ? other : values;
    to[i] = from[i] * 3 + from[(i + kThreads + 1) % kValues] + (from[kValues - 1 - i] >> 1);
    grid.sync();
  }
  values[i] = other[i];
}

__global__ void in_tiles(uint32_t* values, uint32_t* tallies) {
  __shared__ uint32_t copied[kThreads];
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  // Raw bytes: a variable with a constructor cannot be shared.
  __shared__ alignas(Barrier) unsigned char place[sizeof(Barrier)];
  Barrier& barrier = *reinterpret_cast<Barrier*>(place);
  const cg::thread_block block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&barrier, static_cast<ptrdiff_t>(block.size()));
  block.sync();
  cuda::memcpy_async(block, copied, values + blockIdx.x * kThreads,
                     cuda::aligned_size_t<16>(sizeof copied), barrier);
  barrier.arrive_and_wait();
  const uint32_t value = copied[kThreads - 1 - threadIdx.x];

  const auto tile = cg::tiled_partition<16>(block);
  const uint32_t sum = cg::reduce(tile, value, cg::plus<uint32_t>());
  const uint32_t before = cg::exclusive_scan(tile, value, cg::plus<uint32_t>());
  const uint32_t most = cg::reduce(tile, value, cg::greater<uint32_t>());
  const auto same = cg::labeled_partition(tile, value % 3);
  const uint32_t of_label = cg::reduce(same, value, cg::bit_xor<uint32_t>());
  // However many of them come here together, all are counted.
  if ((value & 1) != 0) {
    const cg::coalesced_group there = cg::coalesced_threads();
    const uint32_t all = cg::reduce(there, value, cg::plus<uint32_t>());
    if (there.thread_rank() == 0) {
      atomicAdd(&tallies[0], static_cast<uint32_t>(there.size()));
      atomicAdd(&tallies[1], all);
    }
  }
  cg::memcpy_async(block, copied, values + blockIdx.x * kThreads, sizeof copied);
  cg::wait(block);
  values[blockIdx.x * kThreads + threadIdx.x] =
      copied[threadIdx.x] + sum * 5 + before + (most ^ of_label);
}

void relax_on_host(std::vector<uint32_t>& values) {
  std::vector<uint32_t> other(kValues);
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (uint32_t i = 0; i < kValues; ++i) {
      other[i] =
          values[i] * 3 + values[(i + kThreads + 1) % kValues] + (values[kValues - 1 - i] >> 1);
    }
    values.swap(other);
  }
}

void tiles_on_host(std::vector<uint32_t>& values, std::vector<uint32_t>& tallies) {
  const std::vector<uint32_t> old = values;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const uint32_t* own = &old[block * kThreads];
    const auto value_of = [&](uint32_t thread) { return own[kThreads - 1 - thread]; };
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      const uint32_t value = value_of(thread), tile = thread / 16 * 16;
      uint32_t sum = 0, before = 0, most = 0, of_label = 0;
      for (uint32_t t = tile; t < tile + 16; ++t) {
        sum += value_of(t);
        if (t < thread) before += value_of(t);
        most = std::max(most, value_of(t));
        if (value_of(t) % 3 == value % 3) of_label ^= value_of(t);
      }
      if ((value & 1) != 0) {
        tallies[0] += 1;
        tallies[1] += value;
      }
      values[block * kThreads + thread] = own[thread] + sum * 5 + before + (most ^ of_label);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 200);
  std::vector<uint32_t> host(kValues), host_tallies(2, 0);
  uint32_t random = 5;
  for (uint32_t& value : host) value = next_random(random);
  uint32_t* values = upload(host);
  uint32_t* tallies = upload(host_tallies);
  auto* other = allocate<uint32_t>(kValues);

  for (int step = 1; step <= steps; ++step) {
    void* arguments[] = {&values, &other};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(relax), dim3(kBlocks),
                                      dim3(kThreads), arguments, 0, nullptr));
    in_tiles<<<kBlocks, kThreads>>>(values, tallies);
    CHECK_LAUNCH();
    relax_on_host(host);
    tiles_on_host(host, host_tallies);
    if (step % 4 == 0) {
      std::printf("step %d values %016llx\n", step,
                  static_cast<unsigned long long>(hash_of(fetch(values, kValues))));
    }
  }
  expect_same("value", fetch(values, kValues), host);
  expect_same("tally", fetch(tallies, 2), host_tallies);
  return finish();
}
