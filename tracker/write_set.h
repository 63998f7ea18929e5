// What device memory one call may write: what must be saved, or held apart, before the call is made.
//
// A plain value, built on the stack of the call's handler: no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap {

class WriteSet {
 public:
  static constexpr size_t kMost = 32;  // beyond it the set is everything
  // As a size: the whole contiguous mapped range that holds the address.
  static constexpr uint64_t kWholeRange = UINT64_MAX;

  struct Range {
    uint64_t address = 0;
    uint64_t size = 0;  // bytes, or kWholeRange
  };

  void add(uint64_t address, uint64_t size) {
    if (size == 0 || address == 0) return;
    if (count_ == kMost) {
      everything_ = true;
      return;
    }
    ranges_[count_++] = {address, size};
  }
  void add_range_of(uint64_t address) { add(address, kWholeRange); }
  void add_everything() { everything_ = true; }

  bool everything() const { return everything_; }
  bool empty() const { return count_ == 0 && !everything_; }
  const Range* begin() const { return ranges_; }
  const Range* end() const { return ranges_ + count_; }

 private:
  bool everything_ = false;
  uint8_t count_ = 0;
  Range ranges_[kMost];
};

}  // namespace gpusnap
