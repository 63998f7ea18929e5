// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/compression.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpusnap::plan {
namespace {

// max(T'c, T'Zip)
double busiest_stage_s(const CompressionCosts& costs) {
  return std::max(costs.collect_s, costs.compress_s);
}

double pipelined_saturation(const CompressionCosts& costs) {
  return busiest_stage_s(costs) * costs.file_system_rate / (costs.ratio * costs.bytes);
}

// Where uncompressed checkpoints begin to take longer than `least_s` after collecting. 0: the first
// process stores as slowly already.
double crossing(const CompressionCosts& costs, double least_s) {
  if (least_s <= costs.bytes / costs.process_rate) return 0;
  return least_s * costs.file_system_rate / costs.bytes;
}

}  // namespace

Status check(const CompressionCosts& costs) {
  for (const double value :
       {costs.bytes, costs.ratio, costs.process_rate, costs.file_system_rate}) {
    if (!std::isfinite(value) || value <= 0) {
      return {Code::kInvalid, "sizes, ratio and rates of compression must be above 0"};
    }
  }
  for (const double value : {costs.collect_s, costs.compress_s}) {
    if (!std::isfinite(value) || value < 0) {
      return {Code::kInvalid, "times of collecting and compressing must not be below 0"};
    }
  }
  return {};
}

CheckpointTimes printed_times(const CompressionCosts& costs, double processes) {
  const double slope_s = costs.bytes / costs.file_system_rate;  // for each process beyond k
  const double compressed_s = costs.ratio * slope_s;
  const double k = costs.file_system_rate / costs.process_rate;
  const auto stored_s = [&](double one_s, double saturated_at) {
    return processes <= saturated_at ? one_s : (processes - saturated_at) * one_s;
  };
  CheckpointTimes times;
  times.uncompressed_s = costs.collect_s + stored_s(slope_s, k);
  times.sequential_s = costs.collect_s + costs.compress_s + stored_s(compressed_s, k / costs.ratio);
  const double beyond = processes - pipelined_saturation(costs);
  times.pipelined_s = busiest_stage_s(costs) + std::max(0.0, beyond) * compressed_s;
  return times;
}

CheckpointTimes corrected_times(const CompressionCosts& costs, double processes) {
  const auto stored_s = [&](double bytes) {
    return std::max(bytes / costs.process_rate, processes * bytes / costs.file_system_rate);
  };
  const double compressed = costs.ratio * costs.bytes;
  return {costs.collect_s + stored_s(costs.bytes),
          costs.collect_s + costs.compress_s + stored_s(compressed),
          std::max(busiest_stage_s(costs), stored_s(compressed))};
}

CompressionPoints points_of(const CompressionCosts& costs) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  CompressionPoints points;
  points.saturation = costs.file_system_rate / costs.process_rate;
  points.compressed_saturation = points.saturation / costs.ratio;
  points.pipelined_saturation = pipelined_saturation(costs);
  const double compressed_s = costs.ratio * costs.bytes / costs.process_rate;
  // Both are saturated, or the compressed one is not yet.
  points.sequential_benefit = kNever;
  if (costs.ratio < 1) {
    const double both =
        costs.compress_s * costs.file_system_rate / ((1 - costs.ratio) * costs.bytes);
    points.sequential_benefit = both >= points.compressed_saturation
                                    ? both
                                    : crossing(costs, costs.compress_s + compressed_s);
  }
  const double least_s = std::max(busiest_stage_s(costs), compressed_s);
  points.pipelined_benefit = costs.ratio < 1 ? crossing(costs, least_s - costs.collect_s) : kNever;
  return points;
}

}  // namespace gpusnap::plan
