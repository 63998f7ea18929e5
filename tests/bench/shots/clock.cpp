// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/clock.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

namespace gpusnap::shots {

void Clock::at(int64_t when_ns, Event event) {
  assert(when_ns >= now_ns_);
  events_.push_back({when_ns, ++added_, std::move(event)});
  std::ranges::push_heap(events_, std::greater<>());
}

void Clock::run() {
  while (!events_.empty()) {
    std::ranges::pop_heap(events_, std::greater<>());
    const Entry next = std::move(events_.back());
    events_.pop_back();
    now_ns_ = next.when_ns;
    next.event();
  }
}

void Barrier::arrive(Clock::Event then) {
  waiting_.push_back(std::move(then));
  if (waiting_.size() < members_) return;
  for (Clock::Event& each : std::exchange(waiting_, {})) clock_.after(0, std::move(each));
}

}  // namespace gpusnap::shots
