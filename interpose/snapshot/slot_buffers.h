// SPDX-License-Identifier: Apache-2.0
//
// Slots of the staging area that a checkpoint is read into: the device copies from them fastest.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

#include "tiers/staging/pool.h"
#include "tiers/store.h"

namespace gpusnap {

// Used by one thread at a time.
class SlotBuffers final : public ReadBuffers {
 public:
  explicit SlotBuffers(StagingPool& pool) : pool_(pool) {}
  size_t bytes() const override { return pool_.slot_bytes(); }
  Result<std::byte*> take(bool wait) override {
    auto slot = wait ? pool_.acquire() : pool_.acquire(std::chrono::nanoseconds(0));
    if (slot.status().code() == Code::kBusy) return nullptr;
    if (!slot.ok()) return slot.status();
    return taken_.emplace(slot.value()->data, slot.value()).first->first;
  }
  void give_back(std::byte* buffer) override {
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
  StagingPool& pool_;
  std::map<std::byte*, Slot*> taken_;
};

}  // namespace gpusnap
