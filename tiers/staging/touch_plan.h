// SPDX-License-Identifier: Apache-2.0
//
// Decides which slots of a staging area are backed with memory next, and when (the deep-tiers
// showcase, slides 24 and 25: opportunistic touching, which pauses while transfers run). No clock,
// no thread and no memory: its calls decide everything.
//
// It keeps as many slots free as all clients may want at once, or as many as have ever been in use,
// whichever is more. The reserve therefore doubles while programs consume it, and memory that an
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
    uint32_t part_slots = 8;   // the most that one thread takes at a time
    uint32_t threads = 1;      // that share the slots which may be touched now
    uint32_t ahead_slots = 0;  // the least free slots for each client
    // With fewer free slots for each client, touching does not pause until the reserve is complete:
    // by all threads at once, since touching beside a transfer slows both.
    uint32_t few_slots = 0;
    bool pauses = true;  // while transfers run; false: for comparison
  };
  // The current state of the area.
  struct Demand {
    uint32_t used = 0;          // slots that are claimed or filled
    uint32_t clients = 0;       // processes; 0: nothing is touched
    bool transferring = false;  // a checkpoint is being handed over
  };
  struct Part {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  // The first `backed` slots are backed already.
  TouchPlan(const Options& options, uint32_t backed);

  void observe(const Demand& demand);
  // Returns the next part for one thread, which touches its slots in their order, each as soon as
  // may_touch() allows it. Empty: no further slot may be touched now.
  std::optional<Part> take();
  // Returns whether the slot, of a part that was taken, may be touched now.
  bool may_touch(uint32_t slot) const { return slot < target(); }
  void touched(uint32_t slot);
  // The system had no memory for the slot: neither it nor any later slot will be backed.
  void refused(uint32_t slot);

  // Number of leading slots that have been touched.
  uint32_t backed() const { return backed_; }
  // Returns whether backed() is final because of refused().
  bool is_exhausted() const { return backed_ == limit_ && limit_ < options_.slots; }

 private:
  void end_urgency();
  uint64_t wanted() const;  // slots in all, regardless of transfers
  // The slot at which touching stops now.
  uint32_t target() const;

  const Options options_;
  Demand demand_;
  uint32_t most_used_ = 0;  // at any one time
  bool is_urgent_ = false;  // free slots were few, and are not enough yet
  uint32_t next_ = 0;       // the first slot of the next part
  uint32_t limit_ = 0;      // the first slot that the system refused, or all slots
  uint32_t backed_ = 0;
  std::vector<bool> touched_;
};

}  // namespace gpusnap
