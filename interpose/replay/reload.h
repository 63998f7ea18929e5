// SPDX-License-Identifier: Apache-2.0
//
// Reload: a checkpoint's device memory in a program that is no replay of it, but brings its own
// host state. Decides when the memory is put back, and whether that can be done at all.
//
// Not thread-safe: the caller holds the session's lock.
#pragma once

#include <cstdint>
#include <string>

#include "interpose/process/restored_rank.h"
#include "tracker/memory_map.h"

namespace gpusnap {

class Reload {
 public:
  // `restored` outlives it. `behind`: launches that are let through when all memory is there.
  Reload(const RestoredRank& restored, uint64_t behind) : restored_(restored), behind_(behind) {}

  // A launch is about to be made. True: all memory of the checkpoint is there, and is to be put
  // back first.
  bool count_launch(const MemoryMap& memory);
  // The property of the checkpoint or of this process that rules it out; empty: none.
  std::string obstacle(bool uses_arrays, bool shares_memory) const;
  // The program ends, and it has not come to it: why.
  std::string why_not_yet() const { return missing_.empty() ? "no kernel was launched" : missing_; }
  const CheckpointInfo& checkpoint() const { return restored_.checkpoint; }
  const Manifest& manifest() const { return restored_.manifest(); }

 private:
  const RestoredRank& restored_;
  uint64_t behind_;
  uint64_t looked_at_ = 0;  // MemoryMap::lives() when some of it was not there
  std::string missing_;     // one line
};

}  // namespace gpusnap
