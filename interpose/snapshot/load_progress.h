// SPDX-License-Identifier: Apache-2.0
//
// A line on a terminal that says how far the loading of much memory has come, and in the end how
// long it took; nothing elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/backend/restore_reader.h"

namespace gpusnap {

class LoadProgress {
 public:
  // `reader` outlives it.
  LoadProgress(uint64_t total, const RestoreReader& reader);
  ~LoadProgress();
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void add(uint64_t bytes);

 private:
  std::string sources() const;

  const uint64_t total_;
  const RestoreReader& reader_;
  const bool shown_;
  bool written_ = false;
  const int64_t began_;
  int64_t last_;
  uint64_t done_ = 0;
};

}  // namespace gpusnap
