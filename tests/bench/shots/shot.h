// SPDX-License-Identifier: Apache-2.0
//
// One process's shot: a forward pass that writes checkpoints, and a backward pass that reads them
// back (GPU cache and prefetch paper, section 5.3.2).
#pragma once

#include <vector>

#include "tests/bench/shots/runtime.h"
#include "tests/bench/shots/work.h"

namespace gpusnap::shots {

enum class Hints : uint8_t { kNone, kSingle, kAll };

struct Behaviour {
  Hints hints = Hints::kAll;
  bool waits_for_flushes = false;  // between the passes
  int64_t interval_ns = 0;         // of computation, before each checkpoint and after each restore
};

struct Restored {
  uint64_t bytes = 0;
  int64_t wait_ns = 0;
  uint64_t distance = 0;  // checkpoints that follow and were on the device when it was asked for
  Medium from = Medium::kDevice;
};

struct ShotResult {
  uint64_t bytes = 0;         // of all checkpoints
  int64_t write_wait_ns = 0;  // for which the application was blocked
  int64_t restore_wait_ns = 0;
  int64_t flush_wait_ns = 0;  // between the passes
  int64_t ended_ns = 0;
  size_t failed = 0;  // requests
  std::vector<Restored> restores;
};

class Shot {
 public:
  // `barrier`: at each iteration; none if null.
  Shot(Clock& clock, Runtime& runtime, Work work, const Behaviour& behaviour, Barrier* barrier);
  Shot(const Shot&) = delete;
  Shot& operator=(const Shot&) = delete;

  void start();
  const ShotResult& result() const { return result_; }

 private:
  void compute_and_write();
  void write();
  void start_backward();
  void restore();
  void restored(bool is_done, int64_t wait_ns);
  void end_iteration(Clock::Event then);
  uint64_t prefetch_distance() const;

  Clock& clock_;
  Runtime& runtime_;
  const Work work_;
  const Behaviour behaviour_;
  Barrier* const barrier_;
  size_t iteration_ = 0;  // of the pass
  ShotResult result_;
};

}  // namespace gpusnap::shots
