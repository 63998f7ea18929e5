// SPDX-License-Identifier: Apache-2.0
//
// This process's turn at what the processes of a node do one after the other (NodeLock). Turns save
// time and nothing depends on them: where one cannot be had, or another process keeps its own for
// too long (it may have been stopped), this one goes on without.
#pragma once

#include <chrono>
#include <optional>

#include "tiers/daemon/node_lock.h"

namespace gpusnap {

// For one thread.
class NodeTurn {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPatience = std::chrono::seconds(2);

  // `lock`: outlives it; null: it is always this process's turn.
  explicit NodeTurn(const NodeLock* lock, std::chrono::nanoseconds patience = kPatience)
      : lock_(lock), patience_(patience) {}

  class Turn {
   public:
    explicit Turn(std::optional<NodeLock::Held> held) : held_(std::move(held)) {}
    bool is_exclusive() const { return held_.has_value(); }

   private:
    std::optional<NodeLock::Held> held_;
  };
  // Until the Turn ends; no lock of ours may be held, nor taken meanwhile. Nothing: it is another
  // process's, come back soon. Does not wait.
  std::optional<Turn> take();

 private:
  const NodeLock* const lock_;
  const std::chrono::nanoseconds patience_;
  std::optional<Clock::time_point> waits_since_;
  bool said_ = false;  // that there are no turns
};

}  // namespace gpusnap
