#include "tiers/staging.h"

#include <algorithm>
#include <cassert>

namespace gpusnap {

namespace {
constexpr size_t kFewestSlots = 2;  // one is filled while the other is written
}

StagingPool::StagingPool(SlotMemory& memory, size_t slot_bytes, size_t max_bytes)
    : memory_(memory),
      slot_bytes_(slot_bytes),
      max_slots_(std::max(kFewestSlots, max_bytes / std::max<size_t>(slot_bytes, 1))),
      limit_(max_slots_) {
  slots_.reserve(max_slots_);
  free_.reserve(max_slots_);
}

StagingPool::~StagingPool() {
  assert(free_.size() == slots_.size());
  for (auto& slot : slots_) memory_.release(slot->data, slot->capacity);
}

Result<Slot*> StagingPool::acquire(std::chrono::nanoseconds longest) {
  const auto deadline = std::chrono::steady_clock::now() + longest;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!free_.empty()) {
      Slot* slot = free_.back();
      free_.pop_back();
      return slot;
    }
    if (made_ < limit_) {
      Result<Slot*> made = make(lock);
      // Where there are others, one of them will do.
      if (made.ok() || made_ == 0) return made;
      continue;
    }
    if (freed_.wait_until(lock, deadline) == std::cv_status::timeout && free_.empty()) {
      return Status(Code::kBusy, "no staging memory came free within " +
                                     std::to_string(longest / std::chrono::milliseconds(1)) +
                                     " ms");
    }
  }
}

Result<Slot*> StagingPool::make(std::unique_lock<std::mutex>& lock) {
  ++made_;
  // Pinning takes milliseconds; slots come back meanwhile.
  lock.unlock();
  Result<std::byte*> data = memory_.allocate(slot_bytes_);
  lock.lock();
  if (!data.ok()) {
    --made_;
    if (made_ > 0) limit_ = made_;
    return data.status();
  }
  slots_.push_back(std::make_unique<Slot>(Slot{data.value(), slot_bytes_, 0}));
  return slots_.back().get();
}

void StagingPool::release(Slot* slot) {
  {
    std::lock_guard lock(mutex_);
    slot->used = 0;
    free_.push_back(slot);
  }
  freed_.notify_one();
}

}  // namespace gpusnap
