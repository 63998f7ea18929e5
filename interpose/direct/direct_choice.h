// SPDX-License-Identifier: Apache-2.0
// Which way the next run of zones goes: from the device straight to a local tier, or by staging
// memory. By what both have been measured to take. Pure logic: it reads no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpusnap {

enum class SaveWay : uint8_t { kStaged, kDirect };

// Not thread-safe.
class DirectChoice {
 public:
  // Runs after which the average of a way counts; and of a look at the other way.
  static constexpr uint64_t kTrial = 4;
  // Runs of one way before the other one is looked at again: that costs 3 % at most where the other
  // one stands for as long.
  static constexpr uint64_t kBetweenTrials = 128;
  // The other way is taken where it is faster by this factor.
  static constexpr double kFaster = 1.2;

  SaveWay next() const { return in_trial_ ? other_ : current_; }
  // A run went that way, and took so long.
  void ended(SaveWay way, uint64_t bytes, uint64_t ns);

 private:
  // A moving average: each run counts three quarters of the one behind it.
  struct Average {
    double bytes = 0;
    double ns = 0;
    uint64_t runs = 0;
    double bytes_per_ns() const { return ns > 0 ? bytes / ns : 0; }
  };
  Average& average(SaveWay way) { return averages_[static_cast<size_t>(way)]; }
  void decide();

  std::array<Average, 2> averages_;
  SaveWay current_ = SaveWay::kDirect;
  SaveWay other_ = SaveWay::kStaged;
  bool in_trial_ = false;
  uint64_t runs_ = 0;  // of the current way since the last trial, or of the trial
};

}  // namespace gpusnap
