// Checks now and then, for those that wait for it, whether a staging area's server is still there.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

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
  Status look_now(Clock::time_point now);

  StagingMemory& memory_;
  const Revive revive_;
  std::mutex mutex_;  // of what follows
  Clock::time_point next_look_;
  Clock::time_point next_start_;
  std::optional<Clock::time_point> unserved_since_;
  Status started_;  // of the last start
  Status last_;
};

}  // namespace gpusnap
