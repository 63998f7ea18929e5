// The device memory that one call may write: it must be saved, or held apart, before the call is
// made.
//
// A plain value, built on the stack of the call's handler: no allocation, and nothing is
// initialised that no range has been put into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpusnap {

class WriteSet {
 public:
  // Beyond it, ranges are joined that have at most so many bytes between them; if there are none,
  // the set is everything. MemoryMap::make_room() joins more, since it knows what lies between.
  static constexpr size_t kMost = 32;
  static constexpr uint64_t kNear = 512;
  // As a size: the whole contiguous mapped range that holds the address.
  static constexpr uint64_t kWholeRange = UINT64_MAX;
  // A box of at most so many rows is kept row by row, a larger one as the range around it.
  static constexpr uint64_t kMostRows = 8;
  static constexpr size_t kMostGuesses = 64;  // beyond it, those that follow are not named

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
  // All else that was said stays.
  void clear_ranges() { count_ = 0; }
  bool is_full() const { return count_ == kMost; }

  // False: nobody has said anything, so anything may be written.
  bool said() const { return said_; }
  bool everything() const { return everything_; }
  bool empty() const { return count_ == 0 && !everything_; }
  const Range* begin() const { return ranges_; }
  const Range* end() const { return ranges_ + count_; }

  // The call launches kernels; a graph's may be many, or none.
  void add_launch() { launch_ = true; }
  // One of them may write more than the set says, which is only what its arguments suggest: by
  // Kernels' number.
  void add_guess(uint32_t kernel);
  // Nor do they suggest it: its code stores where nothing tells.
  void add_unknown(uint32_t kernel) {
    unknown_ = true;
    add_guess(kernel);
  }
  bool launch() const { return launch_; }
  // The set is all that can be written.
  bool proven() const { return guess_count_ == 0; }
  // Something may write where nothing tells.
  bool unknown() const { return unknown_ || everything_; }
  // The kernels of which it is a guess, each once.
  std::span<const uint32_t> guesses() const { return {guesses_, guess_count_}; }
  // There are more of them.
  bool has_other_guesses() const { return other_guesses_; }

 private:
  bool join_near();

  bool said_ = false;
  bool everything_ = false;
  bool launch_ = false;
  bool unknown_ = false;
  bool other_guesses_ = false;
  uint8_t count_ = 0;
  uint8_t guess_count_ = 0;
  uint32_t guesses_[kMostGuesses];
  Range ranges_[kMost];
};

}  // namespace gpusnap
