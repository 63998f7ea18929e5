// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/node_turn.h"

#include <utility>

#include "interpose/services/log.h"
#include "tiers/no_throw.h"

namespace gpusnap {

std::optional<NodeTurn::Turn> NodeTurn::take() {
  if (lock_ == nullptr) return Turn(std::nullopt);
  auto held = no_throw("take turns with other processes", [this] { return lock_->try_hold(); });
  if (!held.ok()) {
    if (!std::exchange(said_, true)) {
      log(LogLevel::kInfo, "processes of this node do not take turns: ", held.status().message());
    }
    return Turn(std::nullopt);
  }
  if (held->has_value()) {
    waits_since_.reset();
    return Turn(std::move(held.value()));
  }
  const Clock::time_point now = Clock::now();
  if (!waits_since_) waits_since_ = now;
  if (now - *waits_since_ < patience_) return std::nullopt;
  return Turn(std::nullopt);
}

}  // namespace gpusnap
