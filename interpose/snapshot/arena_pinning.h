// Pins the staging area for the device while the program runs: slot after slot, as they come to be
// backed by memory, and not while something is copied to the host (the deep-tiers showcase,
// efficient cache initialisation: sequential touch and flush). A checkpoint that comes before it is
// done uses slots as they are. Processes of a node take turns: registrations at the same time only
// compete in the driver (slide 24, serialised registration).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "interpose/hook/driver.h"
#include "interpose/process/workers.h"
#include "interpose/services/node_turn.h"
#include "interpose/services/settings.h"
#include "tiers/staging/memory.h"
#include "tiers/staging/pool.h"

namespace gpusnap {

// Thread-safe. Never destroyed: its thread ends with the process.
class ArenaPinning {
 public:
  // How long copies put off the next few slots at most: a program that always copies does not put
  // them off for ever.
  static constexpr auto kPatience = std::chrono::milliseconds(50);

  // `way`: only stepwise do copies put it off; at once, add_context() waits until all is pinned.
  // `turns`: those of the node's processes, which outlive it; null: there are none.
  ArenaPinning(const Driver& driver, StagingMemory& memory, StagingPool& pool, Pinning way,
               const NodeLock* turns);
  ArenaPinning(const ArenaPinning&) = delete;
  ArenaPinning& operator=(const ArenaPinning&) = delete;

  // With a thread of ours. `copies`: whether something is being copied to the host.
  void begin(Workers& workers, std::function<bool()> copies);
  // A context of the program's is there, and current: the first is the one that pins.
  void add_context(CUcontext context);
  // Not all is pinned yet.
  bool under_way() const { return under_way_.load(std::memory_order_relaxed); }

  // While it lives nothing is pinned: a context may be about to end.
  class Pause {
   public:
    explicit Pause(ArenaPinning* pinning);  // null: of nothing
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ArenaPinning* const pinning_;
  };
  // It has ended, and what it had pinned is not any more. Inside of a pause.
  void forget_context(CUcontext context);

 private:
  void work();
  void wait_for_copies() const;
  // Pins a few slots more, where there are any.
  void step();
  void end();  // with the lock held
  enum class Outcome { kPinned, kRefused, kPutOff };
  Outcome pin(CUcontext context, uint32_t first, uint32_t count);
  bool register_slots(CUcontext context, uint32_t first, uint32_t count) const;

  const Driver& driver_;
  StagingMemory& memory_;
  StagingPool& pool_;
  const Pinning way_;
  NodeTurn turns_;  // the thread's
  std::function<bool()> copies_;
  std::atomic<bool> under_way_{false};
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  CUcontext context_ = nullptr;
  uint32_t pinned_ = 0;         // slots, the leading ones, in the context
  bool done_ = false;           // no more in this context
  std::atomic<int> pauses_{0};  // changed with the lock held
  bool pinning_ = false;        // is being done, without the lock
};

}  // namespace gpusnap
