// SPDX-License-Identifier: Apache-2.0
//
// Blocks of a buffer that are lent to others, each loan one run. No more is lent than the owner
// leaves free for itself, no two loans overlap, and a loan is the borrower's until it ends.
//
// Pure logic. Not thread-safe; the owner serialises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "tracker/block_pool.h"

namespace gpusnap {

class Loans {
 public:
  // At most `most` blocks, of which at least `keep` stay free in the pool. Nothing: there are none.
  // `number`: of this loan, and of no other that has not ended.
  std::optional<BlockPool::Run> grant(BlockPool& pool, uint64_t number, uint64_t most,
                                      uint64_t keep) {
    if (pool.free() <= keep || runs_.contains(number)) return std::nullopt;
    const BlockPool::Run run = pool.take_longest(std::min(most, pool.free() - keep));
    if (run.count == 0) return std::nullopt;
    runs_[number] = run;
    return run;
  }
  // The blocks are free again, which are returned. Nothing: there is no such loan.
  std::optional<BlockPool::Run> end(BlockPool& pool, uint64_t number) {
    const auto found = runs_.find(number);
    if (found == runs_.end()) return std::nullopt;
    const BlockPool::Run run = found->second;
    runs_.erase(found);
    pool.give_back(run);
    return run;
  }
  bool any() const { return !runs_.empty(); }

 private:
  std::map<uint64_t, BlockPool::Run> runs_;  // by number
};

}  // namespace gpusnap
