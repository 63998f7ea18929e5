// SPDX-License-Identifier: Apache-2.0
//
// Blocks in a range of addresses. Each goes to the smallest gap that it fits into, to the lowest of
// equal ones; large blocks begin at a granule. So the blocks that there are alone decide where the
// next one goes: neither their order, nor what failed or was given back before. A program that
// makes the same allocations has them at the same addresses.
//
// Pure logic: no CUDA, no threads. Not thread-safe; the owner serialises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace gpusnap {

class BlockAllocator {
 public:
  static constexpr uint64_t kUnit = 512;                   // of addresses and sizes
  static constexpr uint64_t kGranule = uint64_t{2} << 20;  // of physical memory
  // Blocks from here on begin at a granule, of which each wastes one at most: less than 3%.
  static constexpr uint64_t kLarge = uint64_t{64} << 20;

  // The range is of whole granules and begins at one.
  BlockAllocator(uint64_t address, uint64_t bytes);

  // None: there is no gap for it, or `bytes` is 0.
  std::optional<uint64_t> take(uint64_t bytes);
  // Exactly there, as take() once had it: false where not all of it is free.
  bool take_at(uint64_t address, uint64_t bytes);
  // The block that begins there, if there is one; nothing else is given back.
  bool give_back(uint64_t address);

  // Address -> bytes, in whole units.
  const std::map<uint64_t, uint64_t>& blocks() const { return blocks_; }
  const std::map<uint64_t, uint64_t>& gaps() const { return gaps_; }

 private:
  using Gaps = std::map<uint64_t, uint64_t>;
  void add_gap(uint64_t address, uint64_t bytes);
  void remove_gap(Gaps::iterator gap);
  void cut_out(Gaps::iterator gap, uint64_t address, uint64_t bytes);

  std::map<uint64_t, uint64_t> blocks_;
  Gaps gaps_;                                        // no two side by side
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // of the gaps: bytes, address
};

}  // namespace gpusnap
