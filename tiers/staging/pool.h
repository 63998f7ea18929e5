// SPDX-License-Identifier: Apache-2.0
// The slots of a staging area as one process uses them. Every byte of a snapshot passes through a
// slot on its way from the device to the backend, and back. The number of slots bounds gpusnap's
// use of host memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tiers/mutex.h"
#include "tiers/staging/client.h"
#include "tiers/staging/server_watch.h"
#include "tiers/status.h"

namespace gpusnap {

struct Slot {
  std::byte* data = nullptr;
  size_t capacity = 0;  // bytes
  size_t used = 0;      // bytes
  uint32_t index = 0;   // in the area
};

// Thread-safe.
class StagingPool {
 public:
  // All three outlive the pool. The client has joined that memory.
  StagingPool(StagingMemory& memory, StagingClient& client, ServerWatch& watch);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Waits for a free slot. Returns kBusy if none has become free within `longest`, and another
  // error only if the area has no server any more. Processes get slots in the order in which they
  // asked. Within a process, callers that wait come before callers that do not, so that a snapshot
  // that takes each free slot does not keep a journal from its slot.
  Result<Slot*> acquire(std::chrono::nanoseconds longest = kWithoutLimit);
  static constexpr std::chrono::nanoseconds kWithoutLimit = std::chrono::hours(24 * 365);
  // While a Claim exists it counts as a waiting caller: free slots are kept for waiting callers.
  // Used by a thread that hands a slot over and cannot go on without another one.
  class Claim {
   public:
    explicit Claim(StagingPool& pool) : pool_(pool) { pool_.waiting_.fetch_add(1); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { pool_.waiting_.fetch_sub(1); }

   private:
    StagingPool& pool_;
  };
  // While a Standing exists, callers that do not wait share one place in the line of processes.
  // Without it, they only get slots that no process waits for.
  class Standing {
   public:
    explicit Standing(StagingPool& pool) : pool_(pool) { pool_.begin_standing(); }
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;
    ~Standing() { pool_.end_standing(); }

   private:
    StagingPool& pool_;
  };
  // Gives back an unused slot.
  void release(Slot* slot);

  StagingClient& client() { return client_; }
  ServerWatch& watch() { return watch_; }
  size_t slot_bytes() const { return memory_.header().slot_bytes; }
  // The most pieces of one slot.
  size_t pieces_per_slot() const { return memory_.pieces(0).size(); }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  // Returns the number of slots that no process has, including those that can still be backed.
  // Looks at all slots.
  uint32_t free_slots() const;
  // Makes acquire() prefer the first `leading` slots, which the device reaches fastest.
  void prefer(uint32_t leading) { preferred_.store(leading, std::memory_order_relaxed); }

 private:
  void begin_standing();
  void end_standing();
  PlaceInLine take_standing();
  Result<uint32_t> poll();

  StagingMemory& memory_;
  StagingClient& client_;
  ServerWatch& watch_;
  std::vector<Slot> slots_;
  std::atomic<uint32_t> preferred_{0};
  std::atomic<uint32_t> waiting_{0};
  Mutex standing_mutex_;
  uint32_t standing_ GUARDED_BY(standing_mutex_) = 0;
  PlaceInLine standing_place_ GUARDED_BY(standing_mutex_);
};

}  // namespace gpusnap
