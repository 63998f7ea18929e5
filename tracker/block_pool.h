// Divides a buffer: blocks of one size, given out in runs.
//
// Pure logic. Not thread-safe; the owner serialises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpusnap {

class BlockPool {
 public:
  BlockPool() = default;
  explicit BlockPool(uint64_t blocks) : used_(blocks), free_(blocks) {}

  // So many in all: not fewer than there are.
  void grow(uint64_t blocks) {
    free_ += blocks - used_.size();
    used_.resize(blocks);
  }

  struct Run {
    uint64_t first = 0;
    uint64_t count = 0;  // 0: no block is free
  };
  // The next run of free blocks, of at most `most`; it need not be the longest.
  Run take(uint64_t most) {
    if (free_ == 0 || most == 0) return {};
    while (used_[next_]) next_ = (next_ + 1) % used_.size();
    Run run{next_, 0};
    while (run.count < most && next_ < used_.size() && !used_[next_]) {
      used_[next_++] = true;
      ++run.count;
    }
    next_ %= used_.size();
    free_ -= run.count;
    return run;
  }
  // The longest run of free blocks, the first of several, or its first `most`. Looks at all blocks.
  Run take_longest(uint64_t most) {
    Run longest;
    for (uint64_t first = 0; first < used_.size();) {
      uint64_t end = first;
      while (end < used_.size() && !used_[end]) ++end;
      if (end - first > longest.count) longest = {first, end - first};
      first = end + 1;
    }
    longest.count = std::min(longest.count, most);
    for (uint64_t i = longest.first; i < longest.first + longest.count; ++i) used_[i] = true;
    free_ -= longest.count;
    return longest;
  }
  void give_back(Run run) {
    for (uint64_t i = run.first; i < run.first + run.count; ++i) used_[i] = false;
    free_ += run.count;
  }
  uint64_t free() const { return free_; }
  uint64_t size() const { return used_.size(); }

 private:
  std::vector<bool> used_;
  uint64_t free_ = 0;
  uint64_t next_ = 0;  // where the search goes on
};

}  // namespace gpusnap
