// SPDX-License-Identifier: Apache-2.0
//
// Decides where a restore keeps what it reads before it needs it: in host memory, and when that is
// full on a local device. Pure logic: no clock, no thread, no I/O.
//
// Units are asked for in the order in which they are loaded, and each is needed once. So nothing is
// ever evicted for the sake of a later unit: memory holds the first ones, a local device the next
// ones, and the rest stays where it is. Only others who want the memory make it hold less.
#pragma once

#include <cstdint>

namespace gpusnap {

class AheadPlan {
 public:
  enum class Goal : uint8_t {
    kMemory,
    kDevice,  // through a buffer to a local device
    kLeave,   // the unit is read when it is needed, later units may go ahead of it
    kWait,    // until a unit has been read, or moved
    kEnd,     // nothing else is read ahead
  };
  struct Unit {
    uint64_t bytes = 0;     // on a device
    bool fits = true;       // into a buffer
    bool is_local = false;  // on a local device already
  };

  // `spare`: buffers that may be taken now. `has_device`: there may be one to move units to.
  AheadPlan(int64_t spare, bool has_device);

  // Decides about the next unit. `spare`: buffers that may be taken now, `room`: bytes of the
  // largest unit that the device takes.
  Goal next(const Unit& unit, int64_t spare, uint64_t room);
  // No more units go to memory, whatever comes free later: those after them may be elsewhere.
  bool memory_is_full() const { return memory_is_full_; }

  // A unit is being read that is to stay in memory, and has been: several may share a buffer then.
  void begins_to_read() { ++reading_; }
  void was_read() { --reading_; }
  // A unit is on its way to the device, and is no more, whatever came of it.
  void begins_to_move() { ++moving_; }
  void has_moved() { --moving_; }

  // Others need buffers: the last unit in memory is to be given back. Nothing takes its place.
  bool gives_back(int64_t spare);

 private:
  static constexpr int64_t kMostMoving = 4;
  const int64_t most_moving_;  // 0: there is no device
  int64_t reading_ = 0;
  int64_t moving_ = 0;
  bool memory_is_full_ = false;
};

}  // namespace gpusnap
