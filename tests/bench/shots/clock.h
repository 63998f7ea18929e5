// SPDX-License-Identifier: Apache-2.0
//
// A virtual clock: it runs events in the order of their times. Events of the same time run in the
// order in which they were added, so a simulation repeats exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace gpusnap::shots {

class Clock {
 public:
  using Event = std::function<void()>;

  int64_t now_ns() const { return now_ns_; }
  // `when_ns` is not in the past.
  void at(int64_t when_ns, Event event);
  void after(int64_t delay_ns, Event event) { at(now_ns_ + delay_ns, std::move(event)); }
  // Runs events until none is left.
  void run();

 private:
  struct Entry {
    int64_t when_ns = 0;
    uint64_t number = 0;
    Event event;
    bool operator>(const Entry& other) const {
      return when_ns != other.when_ns ? when_ns > other.when_ns : number > other.number;
    }
  };
  int64_t now_ns_ = 0;
  uint64_t added_ = 0;
  std::vector<Entry> events_;  // a heap: the next one first
};

// Lets all of a number of processes go on when the last one has arrived.
class Barrier {
 public:
  Barrier(Clock& clock, size_t members) : clock_(clock), members_(members) {}
  void arrive(Clock::Event then);

 private:
  Clock& clock_;
  const size_t members_;
  std::vector<Clock::Event> waiting_;
};

}  // namespace gpusnap::shots
