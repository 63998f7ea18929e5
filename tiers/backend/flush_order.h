// SPDX-License-Identifier: Apache-2.0
//
// Decides which chunk is flushed next. Chunks in the cache come first: they hold memory that
// writers wait for, while chunks on an SSD hold up no writer. After kMostInARow flushes from the
// cache comes one from an SSD, if there is any, so that these reach the store, too, however much is
// written. Chunks of either kind are flushed in the order in which they were closed.
//
// No clock, no lock, no I/O. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpusnap {

class FlushOrder {
 public:
  // The most chunks of the cache that are flushed in a row while a chunk on a device waits.
  static constexpr uint32_t kMostInARow = 8;

  void add(uint64_t number, bool in_cache) { (in_cache ? cache_ : others_).push_back(number); }
  void remove(uint64_t number) {
    std::erase(cache_, number);
    std::erase(others_, number);
  }
  size_t size() const { return cache_.size() + others_.size(); }

  // Removes and returns the next chunk's number. Empty: there is none.
  std::optional<uint64_t> next() {
    if (size() == 0) return std::nullopt;
    const bool from_cache = others_.empty() || (!cache_.empty() && in_a_row_ < kMostInARow);
    in_a_row_ = from_cache && !others_.empty() ? in_a_row_ + 1 : 0;
    std::deque<uint64_t>& from = from_cache ? cache_ : others_;
    const uint64_t number = from.front();
    from.pop_front();
    return number;
  }

 private:
  std::deque<uint64_t> cache_, others_;
  uint32_t in_a_row_ = 0;
};

}  // namespace gpusnap
