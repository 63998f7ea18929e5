// The staging pool: fixed slots of host memory through which every byte of a snapshot passes on its
// way from the device to a file (and back). Its ceiling is what bounds our use of host memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tiers/status.h"

namespace gpusnap {

// Where slots come from. The library pins them for the device; tests and the tool use plain memory.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual Result<std::byte*> allocate(size_t bytes) = 0;
  virtual void release(std::byte* slot, size_t bytes) = 0;
};

struct Slot {
  std::byte* data = nullptr;
  size_t capacity = 0;  // bytes
  size_t used = 0;      // bytes
};

// Thread-safe. Slots are made on demand, up to `max_bytes` (at least two), and kept.
class StagingPool {
 public:
  StagingPool(SlotMemory& memory, size_t slot_bytes, size_t max_bytes);
  ~StagingPool();  // every slot must be back
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Waits until a slot is free: kBusy when none has come free within `longest`. Fails otherwise
  // only where not a single slot can be had.
  Result<Slot*> acquire(std::chrono::nanoseconds longest = kWithoutLimit);
  static constexpr std::chrono::nanoseconds kWithoutLimit = std::chrono::hours(24 * 365);
  void release(Slot* slot);
  size_t slot_bytes() const { return slot_bytes_; }

 private:
  // With the lock held, which it lets go while it allocates.
  Result<Slot*> make(std::unique_lock<std::mutex>& lock);

  SlotMemory& memory_;
  const size_t slot_bytes_;
  const size_t max_slots_;
  std::mutex mutex_;
  size_t made_ = 0;  // slots that are there or being made
  size_t limit_;     // max_slots_, or as many as memory gave
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
};

}  // namespace gpusnap
