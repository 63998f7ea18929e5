// How long the program's streams waited for copies of a snapshot, in time of the device. Each wait
// has an event with a time before it and one after it; nobody waits for these events.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

#include "interpose/snapshot/event_pool.h"

namespace gpusnap {

// One object for each context, which is current in all calls. begin() and end() may be called by
// any thread, the others by one thread at a time. A wait for which the driver gives no event is not
// counted.
class StreamWaits {
 public:
  explicit StreamWaits(const Driver& driver) : driver_(driver), events_(driver, CU_EVENT_DEFAULT) {}

  // Before the first wait is enqueued on a stream; what end() needs after the last one.
  CUevent begin(CUstream stream);
  void end(CUevent from, CUstream stream);

  // Adds waits that are over, in the order in which they began, up to the first that is not. To be
  // called now and then: the events are used again.
  void collect();
  // All copies of the snapshot have arrived: nanoseconds that its waits took in all. The next
  // snapshot begins at 0.
  uint64_t finish();

 private:
  struct Wait {
    CUevent from = nullptr, to = nullptr;
    bool counts = true;
  };
  bool passed(CUevent event) const;
  void await_end(Wait& wait);
  void settle(const Wait& wait);

  const Driver& driver_;
  EventPool events_;
  uint64_t total_ns_ = 0;
  std::mutex mutex_;        // of what follows
  std::deque<Wait> waits_;  // enqueued, the oldest first
};

}  // namespace gpusnap
