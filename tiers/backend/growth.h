// SPDX-License-Identifier: Apache-2.0
//
// How the staging area takes more memory (the deep-tiers showcase, efficient cache initialisation,
// slides 24 and 25): forerunner threads touch it ahead of the programs that fill it.
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
  kConcurrent,  // likewise, but meanwhile, too: to compare with
  kAtOnce,      // all of it: to compare with
};

class Growth {
 public:
  struct Options {
    Spawn spawn;
    GrowthWay way = GrowthWay::kAhead;
    uint32_t threads = 1;
    uint64_t part_bytes = 32 << 20;  // what a thread takes at a time
    // One line, at most once, of what is slower than it might be. Any thread.
    std::function<void(const std::string&)> note;
  };
  // Parts that are kept free for each client, however little it has needed so far: 128 MiB. The
  // showcase's checkpoints have 200 MB (slide 23).
  static constexpr uint32_t kPartsAhead = 4;
  // With fewer free ones for each client touching does not pause.
  static constexpr uint32_t kPartsFew = 2;

  // As the memory's server, which outlives it.
  Growth(StagingMemory& memory, const Options& options);

  void start();
  // By one thread. `free`: free slots; `transferring`: a checkpoint is being handed over.
  void observe(uint32_t free, bool transferring);
  // Slots may still come.
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
