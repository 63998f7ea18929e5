// SPDX-License-Identifier: Apache-2.0
//
// Grows the staging area (the deep-tiers showcase, efficient cache initialisation, slides 24 and
// 25): forerunner threads touch its memory ahead of the programs that fill it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "tiers/spawn.h"
#include "tiers/staging/forerunner.h"
#include "tiers/staging/memory.h"

namespace gpusnap {

enum class GrowthWay {
  kAhead,       // as far ahead as programs need, and not while a checkpoint is handed over
  kConcurrent,  // as kAhead, but also while a checkpoint is handed over; for comparison
  kAtOnce,      // all of it; for comparison
};

class Growth {
 public:
  struct Options {
    Spawn spawn;
    GrowthWay way = GrowthWay::kAhead;
    uint32_t threads = 1;
    uint64_t part_bytes = 32 << 20;  // touched by a thread at a time
    // Called at most once, with one line about what could be faster. Any thread.
    std::function<void(const std::string&)> note;
  };
  // Parts kept free for each client, however little it has needed so far: 128 MiB. The showcase's
  // checkpoints have 200 MB (slide 23).
  static constexpr uint32_t kPartsAhead = 4;
  // Touching does not pause while fewer parts than this are free for each client.
  static constexpr uint32_t kPartsFew = 2;

  // Used by the server of `memory`, which outlives it.
  Growth(StagingMemory& memory, const Options& options);

  void start();
  // Called by one thread. `free`: free slots. `transferring`: a checkpoint is being handed over.
  void observe(uint32_t free, bool transferring);
  // Returns whether the area may still grow.
  bool has_more() const;
  void stop();

 private:
  bool touch(uint32_t slot);
  uint32_t clients() const;

  StagingMemory& memory_;
  const Options options_;
  std::atomic<uint32_t> touched_{0};  // slots
  Forerunner forerunner_;
};

}  // namespace gpusnap
