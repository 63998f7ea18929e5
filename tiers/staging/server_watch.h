// SPDX-License-Identifier: Apache-2.0
// Checks regularly, on behalf of waiting threads, whether a staging area's server still runs.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "tiers/mutex.h"
#include "tiers/staging/memory.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe.
class ServerWatch {
 public:
  // Starts another server for the area, without waiting for it. That server finds what the one
  // before left. Empty: no other server is started.
  using Revive = std::function<Status()>;
  explicit ServerWatch(StagingMemory& memory, Revive revive = {});

  // Returns ok while waiting makes sense: not if there has been no server for a while and none
  // could be started. Makes system calls at intervals, however often it is called.
  Status look();

 private:
  using Clock = std::chrono::steady_clock;
  Status look_now(Clock::time_point now) REQUIRES(mutex_);

  StagingMemory& memory_;
  const Revive revive_;
  Mutex mutex_;
  Clock::time_point next_look_ GUARDED_BY(mutex_);
  Clock::time_point next_start_ GUARDED_BY(mutex_);
  std::optional<Clock::time_point> unserved_since_ GUARDED_BY(mutex_);
  Status started_ GUARDED_BY(mutex_);  // of the last start
  Status last_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
