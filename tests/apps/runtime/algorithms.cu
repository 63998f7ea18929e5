// The algorithms of CUB and Thrust, from the toolkit's own headers: sort, scan, reduction,
// histogram, selection, runs, against the standard library's on the host.
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>

#include "program.h"

namespace {

constexpr int kValues = 6000;
constexpr int kBins = 32;

struct IsOdd {
  __host__ __device__ bool operator()(uint32_t value) const { return (value & 1) != 0; }
};

__global__ void stir(uint32_t* values, uint32_t salt) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= kValues) return;
  uint32_t state = values[i] * 2654435761u + salt;
  values[i] = next_random(state) % 997;
}

void stir_on_host(std::vector<uint32_t>& values, uint32_t salt) {
  for (uint32_t& value : values) {
    uint32_t state = value * 2654435761u + salt;
    value = next_random(state) % 997;
  }
}

// A call of CUB's, which first says how much memory it wants.
class Cub {
 public:
  template <class Call>
  void operator()(const Call& call) {
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    if (bytes > bytes_) {
      CHECK(cudaFree(memory_));
      CHECK(cudaMalloc(&memory_, bytes));
      bytes_ = bytes;
    }
    CHECK(call(memory_, bytes));
  }
  ~Cub() { cudaFree(memory_); }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

struct State {
  std::vector<uint32_t> values, keys, order, sums, odd, runs;
  std::vector<int> lengths, bins;
  uint32_t total = 0;
  int odd_count = 0, run_count = 0;
};

void compute_on_host(State& s) {
  s.order.resize(kValues);
  std::iota(s.order.begin(), s.order.end(), 0u);
  std::stable_sort(s.order.begin(), s.order.end(),
                   [&](uint32_t a, uint32_t b) { return s.values[a] < s.values[b]; });
  s.keys = s.values;
  std::sort(s.keys.begin(), s.keys.end());
  s.sums.assign(kValues, 0);
  for (int i = 1; i < kValues; ++i) s.sums[i] = s.sums[i - 1] + s.values[i - 1];
  s.total = s.sums.back() + s.values.back();
  s.bins.assign(kBins, 0);
  for (const uint32_t value : s.values) {
    if (value < 992) ++s.bins[value / 31];
  }
  s.odd.clear();
  std::copy_if(s.values.begin(), s.values.end(), std::back_inserter(s.odd), IsOdd());
  s.odd_count = static_cast<int>(s.odd.size());
  s.runs.clear();
  s.lengths.clear();
  for (const uint32_t key : s.keys) {
    if (s.runs.empty() || s.runs.back() != key) {
      s.runs.push_back(key);
      s.lengths.push_back(0);
    }
    ++s.lengths.back();
  }
  s.run_count = static_cast<int>(s.runs.size());
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 100);
  State host;
  host.values.resize(kValues);
  uint32_t random = 17;
  for (uint32_t& value : host.values) value = next_random(random);
  uint32_t* values = upload(host.values);
  std::vector<uint32_t> places(kValues);
  std::iota(places.begin(), places.end(), 0u);
  uint32_t* numbers = upload(places);
  auto *keys = allocate<uint32_t>(kValues), *order = allocate<uint32_t>(kValues);
  auto *sums = allocate<uint32_t>(kValues), *odd = allocate<uint32_t>(kValues);
  auto *runs = allocate<uint32_t>(kValues), *total = allocate<uint32_t>(1);
  auto* again = allocate<uint32_t>(kValues);
  auto *lengths = allocate<int>(kValues), *bins = allocate<int>(kBins), *counts = allocate<int>(2);
  Cub cub_call;

  for (int step = 1; step <= steps; ++step) {
    stir<<<(kValues + 127) / 128, 128>>>(values, static_cast<uint32_t>(step));
    CHECK_LAUNCH();
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, values, keys, numbers, order, kValues);
    });
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(memory, bytes, values, sums, kValues);
    });
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceReduce::Sum(memory, bytes, values, total, kValues);
    });
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceHistogram::HistogramEven(memory, bytes, values, bins, kBins + 1, 0u, 992u,
                                                 kValues);
    });
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceSelect::If(memory, bytes, values, odd, counts, kValues, IsOdd());
    });
    cub_call([&](void* memory, size_t& bytes) {
      return cub::DeviceRunLengthEncode::Encode(memory, bytes, keys, runs, lengths, counts + 1,
                                                kValues);
    });
    CHECK(cudaMemcpy(again, values, kValues * sizeof *again, cudaMemcpyDeviceToDevice));
    thrust::sort(thrust::device, thrust::device_pointer_cast(again),
                 thrust::device_pointer_cast(again) + kValues);
    stir_on_host(host.values, static_cast<uint32_t>(step));
    if (step % 2 == 0) {
      const uint32_t sum = fetch(total, 1)[0];
      std::printf("step %d sum %u runs %d\n", step, sum, fetch(counts, 2)[1]);
    }
  }
  compute_on_host(host);
  const auto front = [](std::vector<uint32_t> list, int count) {
    list.resize(static_cast<size_t>(count));
    return list;
  };
  expect_same("value", fetch(values, kValues), host.values);
  expect_same("key", fetch(keys, kValues), host.keys);
  expect_same("key of thrust", fetch(again, kValues), host.keys);
  expect_same("order", fetch(order, kValues), host.order);
  expect_same("sum", fetch(sums, kValues), host.sums);
  expect_same("total", fetch(total, 1), {host.total});
  expect_same("bin", fetch(bins, kBins), host.bins);
  expect_same("count", fetch(counts, 2), {host.odd_count, host.run_count});
  expect_same("odd value", front(fetch(odd, kValues), host.odd_count), host.odd);
  expect_same("run", front(fetch(runs, kValues), host.run_count), host.runs);
  expect_same("length", fetch(lengths, static_cast<size_t>(host.run_count)), host.lengths);
  std::printf("order %016llx\n", static_cast<unsigned long long>(hash_of(host.order)));
  return finish();
}
