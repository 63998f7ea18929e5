// When the staging area takes more memory (the deep-tiers showcase, efficient cache
// initialisation): at once when free slots become few; else ahead of need, at a pace that programs
// do not notice, and while nothing is handed over.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpusnap {

class Growth {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // With 8 slots of 4 MiB at a time: 320 MB a second.
  static constexpr auto kEvery = std::chrono::milliseconds(100);

  // `few`: so many free slots are too few. That many are added at a time.
  explicit Growth(uint32_t few) : few_(few) {}

  bool is_needed(size_t free_slots) const { return free_slots < few_; }
  // `quiet`: nothing is being handed over.
  bool is_due(size_t free_slots, bool quiet, Time now) const {
    return is_needed(free_slots) || (quiet && now - grown_ >= kEvery);
  }
  void grown(Time now) { grown_ = now; }

 private:
  const uint32_t few_;
  Time grown_;
};

}  // namespace gpusnap
