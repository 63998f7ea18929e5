#include "interpose/record/memory_order.h"

#include <algorithm>

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;
}  // namespace

uint64_t MemoryOrder::begin(Kind kind) {
  for (;;) {
    const auto waited_for = std::ranges::max_element(calls_, {}, &Call::patience);
    if (waited_for == calls_.end() || waited_for->patience <= Clock::now()) break;
    (void)lock_.wait_until(changed_, waited_for->patience);
  }
  const auto patience = kind == Kind::kQuick ? patience_.quick : patience_.may_wait;
  calls_.push_back({count_, Clock::now() + patience});
  return count_++;
}

void MemoryOrder::end(uint64_t number) {
  std::erase_if(calls_, [&](const Call& call) { return call.number == number; });
  changed_.notify_all();
}

void MemoryOrder::end_free(uint64_t address) {
  being_freed_.erase(address);
  changed_.notify_all();
}

void MemoryOrder::wait_for_frees(uint64_t address, uint64_t size) {
  auto overlaps = [&](const auto& freed) {
    return freed.first < address + size && address < freed.first + freed.second;
  };
  const auto deadline = Clock::now() + patience_.free;
  while (std::ranges::any_of(being_freed_, overlaps) && lock_.wait_until(changed_, deadline)) {
  }
}

bool SurplusAllocations::take(uint64_t address, Memory memory) {
  const auto found = kept_.find(address);
  if (found == kept_.end() || found->second != memory) return false;
  kept_.erase(found);
  return true;
}

}  // namespace gpusnap
