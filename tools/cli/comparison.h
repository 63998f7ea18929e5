// SPDX-License-Identifier: Apache-2.0
// Compares the memory of two checkpoints, range by range. Knows nothing of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tiers/manifest.h"

namespace gpusnap {

// A range of each of two ranks, by their numbers.
struct RangePair {
  uint32_t one = 0;
  uint32_t other = 0;
  bool by_number = false;  // nothing else says that they are the same
};

struct RangeMatch {
  std::vector<RangePair> both;  // by number in the first one
  std::vector<uint32_t> only_one;
  std::vector<uint32_t> only_other;
};

// By kind and identity: call site, ordinal and size; then the same without the size; what is left
// by number, where kind and size are the same.
RangeMatch match_ranges(const std::vector<SavedRange>& one, const std::vector<SavedRange>& other);

// An element that differs. The last one of a range may be shorter.
struct DifferingElement {
  uint64_t index = 0;
  std::vector<std::byte> one;
  std::vector<std::byte> other;
};

// Two ranges whose bytes come from their start to their end.
class RangeComparison {
 public:
  struct Units {
    uint64_t element = 4;     // bytes
    uint64_t zone = 1 << 16;  // bytes; a multiple of `element`
    size_t most = 10;         // elements that are kept
  };
  explicit RangeComparison(const Units& units) : units_(units) {}

  // The next bytes of both; all but the last call give whole elements.
  void add(std::span<const std::byte> one, std::span<const std::byte> other);
  // As many next bytes of both that are known to be equal.
  void skip(uint64_t bytes) { end_ += bytes; }

  bool differs() const { return bytes_ > 0; }
  // How many differ.
  uint64_t bytes() const { return bytes_; }
  uint64_t elements() const { return elements_; }
  uint64_t zones() const { return zones_; }
  const std::vector<DifferingElement>& first() const { return first_; }

 private:
  void add_differing(uint64_t offset, std::span<const std::byte> one,
                     std::span<const std::byte> other);

  const Units units_;
  uint64_t end_ = 0;  // of what was compared
  uint64_t bytes_ = 0;
  uint64_t elements_ = 0;
  uint64_t zones_ = 0;
  uint64_t next_zone_ = 0;  // all before it have been counted
  std::vector<DifferingElement> first_;
};

}  // namespace gpusnap
