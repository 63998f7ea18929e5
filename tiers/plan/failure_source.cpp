// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/failure_source.h"

#include <cmath>

namespace gpusnap::plan {

FailureSource::FailureSource(double shape, uint64_t seed) : shape_(shape), random_(seed) {}

void FailureSource::add(size_t level, double rate, uint64_t components) {
  if (scales_s_.size() <= level) scales_s_.resize(level + 1, 0);
  const double mean_s = static_cast<double>(components) / rate;
  scales_s_[level] = mean_s / std::tgamma(1 + 1 / shape_);
  for (uint64_t node = 0; node < components; ++node) queue_.push({draw(level), level, node});
}

void FailureSource::pop() {
  Failure failure = queue_.top();
  queue_.pop();
  failure.time_s += draw(failure.level);
  queue_.push(failure);
}

// By inversion, so that a seed gives the same failures with every standard library.
double FailureSource::draw(size_t level) {
  constexpr double kSteps = 9007199254740992.0;  // 2^53
  const double uniform = (static_cast<double>(random_() >> 11) + 0.5) / kSteps;
  return scales_s_[level] * std::pow(-std::log(uniform), 1 / shape_);
}

}  // namespace gpusnap::plan
