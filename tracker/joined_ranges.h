// SPDX-License-Identifier: Apache-2.0
//
// Ranges of addresses, of which those that nearly touch are one.
//
// Pure logic: no CUDA, no threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace gpusnap {

class JoinedRanges {
 public:
  // Bytes between two ranges that are one all the same: no more than what aligns a variable.
  static constexpr uint64_t kGap = 256;

  void add(uint64_t address, uint64_t size) {
    uint64_t end = address + size;
    auto next = ranges_.upper_bound(address);
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      const uint64_t before_end = before->first + before->second;
      if (address <= before_end + kGap) {
        address = before->first;
        end = std::max(end, before_end);
        ranges_.erase(before);
      }
    }
    while (next != ranges_.end() && next->first <= end + kGap) {
      end = std::max(end, next->first + next->second);
      next = ranges_.erase(next);
    }
    ranges_[address] = end - address;
  }
  void clear() { ranges_.clear(); }
  // Address and size, in order.
  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

}  // namespace gpusnap
