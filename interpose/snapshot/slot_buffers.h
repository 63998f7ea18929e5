// SPDX-License-Identifier: Apache-2.0
//
// Memory that a checkpoint is read into. Slots of the staging area where they are free: the device
// copies from them fastest.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

#include "tiers/page_memory.h"
#include "tiers/staging/pool.h"
#include "tiers/store.h"

namespace gpusnap {

// Used by one thread at a time.
class SlotBuffers final : public ReadBuffers {
 public:
  explicit SlotBuffers(StagingPool& pool) : pool_(pool) {}
  size_t bytes() const override { return pool_.slot_bytes(); }
  // Never waits. Other processes may keep all slots for as long as the store does not answer, and
  // the checkpoint that is read may lie in those slots. Memory outside the area then takes their
  // place, one buffer at a time: with `wait` the reader has no other.
  Result<std::byte*> take(bool wait) override {
    auto slot = pool_.acquire(std::chrono::nanoseconds(0));
    if (slot.ok()) return taken_.emplace(slot.value()->data, slot.value()).first->first;
    if (slot.status().code() != Code::kBusy) return slot.status();
    return wait ? take_outside() : nullptr;
  }
  void give_back(std::byte* buffer) override {
    if (buffer == outside_.get()) return;
    const auto found = taken_.find(buffer);
    pool_.release(found->second);
    taken_.erase(found);
  }
  // A quarter of the area is left to others: a process that waits for a slot must get one, however
  // long this one keeps those that it has.
  int64_t spare() const override {
    constexpr uint32_t kLeastLeft = 2;
    const uint32_t left = std::max(kLeastLeft, pool_.slots() / 4);
    return int64_t{pool_.free_slots()} - int64_t{left};
  }

 private:
  Result<std::byte*> take_outside() {
    if (outside_ == nullptr) {
      Result<PageMemory> memory = allocate_pages(bytes());
      if (!memory.ok()) return memory.status();
      outside_ = std::move(memory.value());
    }
    return outside_.get();
  }

  StagingPool& pool_;
  std::map<std::byte*, Slot*> taken_;
  PageMemory outside_;
};

}  // namespace gpusnap
