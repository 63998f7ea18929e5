// What device memory one call may write: what must be saved, or held apart, before the call is
// made.
//
// A plain value, built on the stack of the call's handler: no allocation, and nothing is
// initialised that no range has been put into.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap {

class WriteSet {
 public:
  static constexpr size_t kMost = 32;  // beyond it the set is everything
  // As a size: the whole contiguous mapped range that holds the address.
  static constexpr uint64_t kWholeRange = UINT64_MAX;
  // A box of at most so many rows is kept row by row, a larger one as the range around it.
  static constexpr uint64_t kMostRows = 8;
  static constexpr uint32_t kNoKernel = UINT32_MAX;

  struct Range {
    uint64_t address;
    uint64_t size;  // bytes, or kWholeRange
  };

  // Not `= default`: that would clear all ranges wherever a set is made by `{}`.
  WriteSet() {}

  // A range that would wrap ends where addresses end.
  void add(uint64_t address, uint64_t size);
  void add_range_of(uint64_t address) { add(address, kWholeRange); }
  // `depth` slices of `height` rows of `width` bytes, `pitch` and `slice` bytes apart.
  void add_box(uint64_t address, uint64_t width, uint64_t height, uint64_t pitch, uint64_t depth,
               uint64_t slice);
  void add_everything() { said_ = everything_ = true; }
  // Says that there may be nothing: the set is given, and stays empty.
  void add_nothing() { said_ = true; }

  // False: nobody has said anything, so anything may be written.
  bool said() const { return said_; }
  bool everything() const { return everything_; }
  bool empty() const { return count_ == 0 && !everything_; }
  const Range* begin() const { return ranges_; }
  const Range* end() const { return ranges_ + count_; }

  // Whose launch this is, by Modules::function(), and whether the set is all that the kernel can
  // write (proven) or a guess that its arguments suggest. kNoKernel, proven: no launch.
  void set_kernel(uint32_t number, bool proven) {
    kernel_ = number;
    proven_ = proven;
  }
  uint32_t kernel() const { return kernel_; }
  bool proven() const { return proven_; }

 private:
  bool said_ = false;
  bool everything_ = false;
  bool proven_ = true;
  uint8_t count_ = 0;
  uint32_t kernel_ = kNoKernel;
  Range ranges_[kMost];
};

}  // namespace gpusnap
