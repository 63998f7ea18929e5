// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/server_watch.h"

#include <utility>

namespace gpusnap {

namespace {
constexpr auto kBetweenServerLooks = std::chrono::milliseconds(100);
constexpr auto kBetweenStarts = std::chrono::seconds(1);
constexpr auto kServerPatience = std::chrono::seconds(10);
}  // namespace

ServerWatch::ServerWatch(StagingMemory& memory, Revive revive)
    : memory_(memory), revive_(std::move(revive)) {}

Status ServerWatch::look() {
  const MutexLock lock(mutex_);
  const auto now = Clock::now();
  if (now < next_look_) return last_;
  next_look_ = now + kBetweenServerLooks;
  last_ = look_now(now);
  return last_;
}

Status ServerWatch::look_now(Clock::time_point now) {
  if (memory_.is_served()) {
    unserved_since_.reset();
    return {};
  }
  if (!unserved_since_) unserved_since_ = now;
  if (!revive_) return {Code::kIo, "the backend has ended"};
  if (now >= next_start_) {
    next_start_ = now + kBetweenStarts;
    started_ = revive_();
  }
  if (now - *unserved_since_ < kServerPatience) return {};
  return {Code::kIo, "the backend has ended, and there is no other one" +
                         (started_.ok() ? std::string() : ": " + started_.message())};
}

}  // namespace gpusnap
