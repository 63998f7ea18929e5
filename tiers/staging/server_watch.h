// Checks now and then, for those that wait for it, whether a staging area's server is still there.
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
  // Has another server started for the area, and need not wait for it. It finds what the one before
  // it had left. Empty: where the server is gone it stays gone.
  using Revive = std::function<Status()>;
  explicit ServerWatch(StagingMemory& memory, Revive revive = {});

  // Whether to go on waiting. Not ok where there has been no server for a while, and none could be
  // started either. Asks the system now and then, whoever calls.
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
