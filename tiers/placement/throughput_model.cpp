// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/throughput_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace gpusnap {

namespace {

Status invalid(std::string what) {
  return {Code::kInvalid, std::move(what)};
}

}  // namespace

Status check_samples(std::span<const ThroughputSample> samples) {
  if (samples.empty()) return invalid("it has no samples");
  const uint32_t step = samples.size() > 1 ? samples[1].writers - samples[0].writers : 1;
  for (size_t i = 0; i < samples.size(); ++i) {
    const ThroughputSample& sample = samples[i];
    const std::string which = "the sample with " + std::to_string(sample.writers) + " writers ";
    if (sample.writers == 0 || sample.writers > kMostModelWriters) {
      return invalid(which + "has not from 1 to " + std::to_string(kMostModelWriters));
    }
    if (i > 0 && (sample.writers <= samples[i - 1].writers ||
                  sample.writers - samples[i - 1].writers != step)) {
      return invalid(which + "is not as far from the one before as the others are");
    }
    if (!(sample.bytes_per_second >= 1 && sample.bytes_per_second <= kMostBytesPerSecond)) {
      return invalid(which + "has a throughput that no device has");
    }
  }
  return {};
}

Result<ThroughputModel> ThroughputModel::fit(std::span<const ThroughputSample> samples) {
  if (Status good = check_samples(samples); !good.ok()) {
    return invalid("cannot model a device's throughput: " + good.message());
  }
  std::vector<double> totals;
  totals.reserve(samples.size());
  for (const ThroughputSample& sample : samples) totals.push_back(sample.bytes_per_second);
  const double first = samples[0].writers;
  const double step = samples.size() > 1 ? samples[1].writers - first : 1;
  Result<BSpline> curve = BSpline::through(first, step, totals);
  if (!curve.ok()) return curve.status();
  return ThroughputModel(std::move(curve.value()), *std::min_element(totals.begin(), totals.end()));
}

double ThroughputModel::total(uint32_t writers) const {
  // Where samples fall steeply, a spline swings below them, in the extreme below zero.
  return std::max(curve_.at(std::max(writers, 1U)), lowest_);
}

double ThroughputModel::of_one(uint32_t writers) const {
  return total(writers) / std::max(writers, 1U);
}

ThroughputModel::Error ThroughputModel::error_against(
    std::span<const ThroughputSample> measured) const {
  Error error;
  size_t counted = 0;
  for (const ThroughputSample& sample : measured) {
    if (!(sample.bytes_per_second > 0)) continue;
    const double off =
        std::abs(total(sample.writers) - sample.bytes_per_second) / sample.bytes_per_second;
    error.mean += off;
    ++counted;
    if (off < error.most || counted == 0) continue;
    error.most = off;
    error.most_at = sample.writers;
  }
  if (counted > 0) error.mean /= static_cast<double>(counted);
  return error;
}

}  // namespace gpusnap
