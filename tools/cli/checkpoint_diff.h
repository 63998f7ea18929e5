// SPDX-License-Identifier: Apache-2.0
// Reads the same parts of two checkpoints and compares them, window by window: memory is bounded,
// whatever the checkpoints' sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tiers/part_reader.h"
#include "tiers/store.h"
#include "tools/cli/comparison.h"

namespace gpusnap {

struct ComparedPair {
  RangePair ranges;
  uint64_t bytes = 0;  // that are compared: of the smaller range
  RangeComparison result;
};

struct ComparedRank {
  const Manifest* one = nullptr;
  const Manifest* other = nullptr;
  std::vector<ComparedPair> pairs;
  std::vector<uint32_t> only_one;
  std::vector<uint32_t> only_other;

  const SavedRange& range_of_one(const ComparedPair& pair) const {
    return one->ranges[pair.ranges.one];
  }
  const SavedRange& range_of_other(const ComparedPair& pair) const {
    return other->ranges[pair.ranges.other];
  }
  bool is_different(const ComparedPair& pair) const {
    return pair.result.differs() || range_of_one(pair).size != range_of_other(pair).size;
  }
};

// The checkpoint of one side of a comparison.
struct DiffSide {
  Store& store;
  const CheckpointInfo& checkpoint;
};

// The two parts of one rank. Everything that it is given outlives it.
class RankDiff {
 public:
  static constexpr uint64_t kWindow = 32 << 20;  // bytes of each side in memory

  // `advance` is told how many bytes of each side have been compared since.
  RankDiff(const DiffSide& one, const DiffSide& other, ComparedRank& rank,
           std::function<void(uint64_t)> advance, uint64_t window = kWindow);

  // Gives each pair of the rank its result. The first failure of reading.
  Status run();

 private:
  // All pairs lie one behind the other, at positions; window w has those from w * window_ on.
  struct Side {
    DiffSide of;
    Contents contents;
    std::vector<std::optional<size_t>> pair_of;        // by number of the range
    std::vector<std::vector<PlacedExtent>> windows{};  // the pieces of each
    std::vector<std::byte> memory{};                   // of one window
  };

  Status prepare(Side& side, uint32_t rank);
  uint64_t position(const Side& side, uint32_t range, uint64_t offset) const;
  void share_out(Side& side);
  void leave_out_shared(size_t window);
  Status read(Side& side, size_t window);
  void compare(size_t window, bool is_equal);

  ComparedRank& rank_;
  const std::function<void(uint64_t)> advance_;
  const uint64_t window_;
  Side one_;
  Side other_;
  std::vector<uint64_t> starts_;  // the position of each pair
  uint64_t end_ = 0;              // behind the last one
  size_t first_pair_ = 0;         // that is not wholly compared
  PlainReadBuffers buffers_;
};

}  // namespace gpusnap
