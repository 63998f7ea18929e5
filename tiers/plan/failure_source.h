// SPDX-License-Identifier: Apache-2.0
//
// Failures of a machine's components, drawn one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <random>
#include <vector>

namespace gpusnap::plan {

struct Failure {
  double time_s = 0;
  size_t level = 0;   // its class
  uint64_t node = 0;  // which node; 0 for the whole system
  bool operator>(const Failure& other) const { return time_s > other.time_s; }
};

// Each component is renewed when it fails: its next failure is drawn afresh.
class FailureSource {
 public:
  // `shape`: of the Weibull distribution; the mean follows from the rate.
  FailureSource(double shape, uint64_t seed);

  // So many components of a class, which together fail `rate` times a second.
  void add(size_t level, double rate, uint64_t components);
  const Failure& next() const { return queue_.top(); }
  void pop();

 private:
  double draw(size_t level);

  double shape_;
  std::mt19937_64 random_;
  std::vector<double> scales_s_;  // by class, of one component
  std::priority_queue<Failure, std::vector<Failure>, std::greater<>> queue_;
};

}  // namespace gpusnap::plan
