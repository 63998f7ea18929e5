// SPDX-License-Identifier: Apache-2.0
//
// Which slots of a staging area are to be backed by memory next, and when (the deep-tiers showcase,
// slides 24 and 25: opportunistic touching, which pauses while transfers run). No clock, no thread
// and no memory in here: a history of calls decides all.
//
// How far ahead: as many free slots as every client may want at once, or as many as have ever been
// in use, whichever is more. So the reserve doubles while programs consume it, and memory that an
// idle program never needs is not taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gpusnap {

// Not thread-safe.
class TouchPlan {
 public:
  struct Options {
    uint32_t slots = 0;        // of the area
    uint32_t part_slots = 8;   // most that one thread takes at a time
    uint32_t threads = 1;      // between which what may be touched now is divided
    uint32_t ahead_slots = 0;  // free slots that are kept for each client at least
    // With fewer free slots for each client it does not pause until all that is wanted is there: at
    // one go, by all threads, since touching beside a transfer slows both.
    uint32_t few_slots = 0;
    bool pauses = true;  // while transfers run; false: to compare with
  };
  // The area's state now.
  struct Demand {
    uint32_t used = 0;          // slots that are claimed or filled
    uint32_t clients = 0;       // processes; without one nothing is touched
    bool transferring = false;  // a checkpoint is being handed over
  };
  struct Part {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  // The first `backed` slots are there already.
  TouchPlan(const Options& options, uint32_t backed);

  void observe(const Demand& demand);
  // The next part, for one thread, which touches its slots in their order; each only once
  // may_touch() allows it. Nothing: no slot more may be touched now.
  std::optional<Part> take();
  // Whether the slot, of a part that was taken, may be touched now.
  bool may_touch(uint32_t slot) const { return slot < target(); }
  void touched(uint32_t slot);
  // The system had no memory for the slot: neither it nor any after it will be there.
  void refused(uint32_t slot);

  // The leading slots that have been touched.
  uint32_t backed() const { return backed_; }
  // backed() is final because of refused().
  bool is_exhausted() const { return backed_ == limit_ && limit_ < options_.slots; }

 private:
  void end_urgency();
  uint64_t wanted() const;  // slots in all, were there no transfers
  // Slots in front of which touching stops now.
  uint32_t target() const;

  const Options options_;
  Demand demand_;
  uint32_t most_used_ = 0;  // at any one time
  bool is_urgent_ = false;  // free slots have been few, and are not enough yet
  uint32_t next_ = 0;       // the first slot of the next part
  uint32_t limit_ = 0;      // the first slot that cannot be had, or all slots
  uint32_t backed_ = 0;
  std::vector<bool> touched_;
};

}  // namespace gpusnap
