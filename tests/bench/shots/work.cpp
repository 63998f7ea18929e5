// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/work.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace gpusnap::shots {

namespace {

constexpr double kLeastTotal = 38, kMostTotal = 50, kUniformTotal = 48;  // GB of a shot
constexpr double kFirst = 0.1;                                           // of the plateau
constexpr double kNoise = 0.1;

// The standard library's distributions differ from one library to another.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  uint64_t below(uint64_t limit) { return engine_() % limit; }

 private:
  std::mt19937_64 engine_;
};

std::vector<uint64_t> variable_sizes(size_t checkpoints, uint64_t median, Random& random) {
  const double total = random.between(kLeastTotal, kMostTotal) / kUniformTotal *
                       static_cast<double>(checkpoints * median);
  const double rise = std::max(static_cast<double>(checkpoints) / 4, 1.0);
  std::vector<double> weights;
  for (size_t i = 0; i < checkpoints; ++i) {
    const double level = std::min(kFirst + (1 - kFirst) * static_cast<double>(i) / rise, 1.0);
    weights.push_back(level * random.between(1 - kNoise, 1 + kNoise));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> bytes;
  for (const double weight : weights) {
    bytes.push_back(std::max<uint64_t>(static_cast<uint64_t>(total * weight / sum), 1));
  }
  return bytes;
}

}  // namespace

Work make_work(Sizes sizes, Order order, size_t checkpoints, uint64_t median, uint64_t seed,
               unsigned process) {
  Random random(seed * 1'000'003 + process);
  Work work;
  work.bytes = sizes == Sizes::kUniform ? std::vector<uint64_t>(checkpoints, median)
                                        : variable_sizes(checkpoints, median, random);
  work.order.resize(checkpoints);
  std::iota(work.order.begin(), work.order.end(), 0);
  if (order == Order::kReverse) std::ranges::reverse(work.order);
  for (size_t left = checkpoints; order == Order::kIrregular && left > 1; --left) {
    std::swap(work.order[left - 1], work.order[random.below(left)]);
  }
  return work;
}

}  // namespace gpusnap::shots
