// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/forerunner.h"

#include <optional>
#include <utility>

namespace gpusnap {

Forerunner::Forerunner(TouchPlan plan, Actions actions)
    : actions_(std::move(actions)), plan_(std::move(plan)) {}

Forerunner::~Forerunner() {
  stop();
}

void Forerunner::start(const Spawn& spawn, uint32_t threads) {
  for (uint32_t i = 0; i < threads; ++i) {
    Result<Join> started = start_thread(spawn, "forerunner", [this] { run(); });
    if (!started.ok()) break;  // goes on with fewer threads
    threads_.push_back(std::move(started.value()));
  }
  const MutexLock lock(mutex_);
  has_threads_ = !threads_.empty();
}

void Forerunner::observe(const TouchPlan::Demand& demand) {
  const MutexLock lock(mutex_);
  plan_.observe(demand);
  changed_.notify_all();
  if (has_threads_ || stopping_) return;
  while (const auto part = plan_.take()) touch_part(*part);
}

void Forerunner::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (const Join& join : std::exchange(threads_, {})) join();
}

void Forerunner::run() {
  const MutexLock lock(mutex_);
  for (;;) {
    std::optional<TouchPlan::Part> part;
    changed_.wait(
        mutex_, [&]() REQUIRES(mutex_) { return stopping_ || (part = plan_.take()).has_value(); });
    if (stopping_) return;
    touch_part(*part);
  }
}

void Forerunner::touch_part(TouchPlan::Part part) {
  for (uint32_t slot = part.first; slot < part.first + part.count; ++slot) {
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return stopping_ || plan_.may_touch(slot); });
    if (stopping_) return;
    const bool there = touch(slot);
    if (there) {
      plan_.touched(slot);
    } else {
      plan_.refused(slot);
    }
    actions_.publish(plan_.backed(), plan_.is_exhausted());
    if (!there) return;
  }
}

bool Forerunner::touch(uint32_t slot) {
  const Unlocked unlocked(mutex_);
  return actions_.touch(slot);
}

}  // namespace gpusnap
