// Slots of the staging pool in our private memory, pinned for the device where it lets us.
#pragma once

#include "interpose/driver.h"
#include "tiers/staging.h"

namespace gpusnap {

inline constexpr size_t kSlotBytes = 16 << 20;

// allocate() needs a current context; slots are made while a checkpoint is taken or loaded.
class PinnedSlots : public SlotMemory {
 public:
  explicit PinnedSlots(const Driver& driver) : driver_(driver) {}
  Result<std::byte*> allocate(size_t bytes) override;
  void release(std::byte* slot, size_t bytes) override;

 private:
  const Driver& driver_;
};

}  // namespace gpusnap
