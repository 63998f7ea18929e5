// The slots of a staging area as one process uses them: every byte of a snapshot passes through one
// on its way from the device to the backend, and back. Their number is what bounds our use of host
// memory.
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
  // All three outlive it; the client is one of the memory's.
  StagingPool(StagingMemory& memory, StagingClient& client, ServerWatch& watch);
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // Waits until a slot is free: kBusy when none has come free within `longest`. Fails otherwise
  // only where nobody serves the area any more. Processes get slots in the order in which they
  // asked. Within this one, who waits is served before all who do not: a journal is not kept from
  // its slot by a snapshot that takes each one that comes free.
  Result<Slot*> acquire(std::chrono::nanoseconds longest = kWithoutLimit);
  static constexpr std::chrono::nanoseconds kWithoutLimit = std::chrono::hours(24 * 365);
  // While one lives it counts as somebody who waits: what comes free is for those. For who hands a
  // slot over and cannot go on without another one.
  class Claim {
   public:
    explicit Claim(StagingPool& pool) : pool_(pool) { pool_.waiting_.fetch_add(1); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { pool_.waiting_.fetch_sub(1); }

   private:
    StagingPool& pool_;
  };
  // While one lives, those who ask again and again without waiting have one place in the line of
  // processes together; without it, they get what nobody waits for.
  class Standing {
   public:
    explicit Standing(StagingPool& pool) : pool_(pool) { pool_.begin_standing(); }
    Standing(const Standing&) = delete;
    Standing& operator=(const Standing&) = delete;
    ~Standing() { pool_.end_standing(); }

   private:
    StagingPool& pool_;
  };
  // Gives it back unused.
  void release(Slot* slot);
  // Hands it over as the stream's next bytes (StagingClient): one thread at a time for a stream.
  void hand_over(uint32_t stream, Slot* slot, std::span<const Piece> pieces);

  StagingClient& client() { return client_; }
  ServerWatch& watch() { return watch_; }
  size_t slot_bytes() const { return memory_.header().slot_bytes; }
  // Pieces that one slot can have.
  size_t pieces_per_slot() const { return memory_.pieces(0).size(); }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  // Returns the number of slots that no process has, including those that can still be backed.
  // Looks at all slots.
  uint32_t free_slots() const;
  // The leading slots are the ones to take while there are any: the device reaches them best.
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
