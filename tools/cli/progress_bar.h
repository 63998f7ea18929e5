// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpusnap {

// A bar on standard error while it lives, where that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done, uint64_t total);
  uint64_t total() const { return total_; }

 private:
  std::string title_;
  bool shown_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  int last_percent_ = -1;
  uint64_t total_ = 0;
};

}  // namespace gpusnap
