// Slots of the staging pool in our private memory, pinned for the device where it lets us.
#pragma once

#include "interpose/driver.h"
#include "tiers/staging.h"

namespace gpusnap {

// Large enough for full bandwidth (GPU Snapshot, section 4.3.1: 1 to 4 MiB and up), small enough
// that a call which needs a zone first does not wait long for the copies before it.
inline constexpr size_t kSlotBytes = 4 << 20;

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
