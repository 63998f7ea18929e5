// SPDX-License-Identifier: Apache-2.0
//
// The order in which the program said that it will read checkpoints back (the paper's P, section
// 4.1.2): hints are appended, and the head is read next.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "tiers/history/fragment_table.h"

namespace gpusnap::history {

// Not thread-safe. All operations take amortised constant time.
class RestoreQueue {
 public:
  // Appends the checkpoint. False if it is queued already: it keeps its place.
  bool hint(Version version);
  // Removes the checkpoint's entry, wherever it is; the others keep their order. A program may
  // deviate from its hints, and may restore what it never hinted.
  void restored(Version version);

  bool empty() const { return positions_.empty(); }
  // The checkpoint that is read next; none if no hint is outstanding.
  std::optional<Version> head() const;
  // Entries from the head to the newest hint. Entries that were removed in between count.
  uint64_t span() const { return entries_.size(); }
  // The entry `distance` after the head, less than span(); none if it was removed.
  std::optional<Version> at(uint64_t distance) const { return entries_[distance]; }
  // Entries before it: 0 at the head, less than span(); none if it is not queued.
  std::optional<uint64_t> distance(Version version) const;

 private:
  std::deque<std::optional<Version>> entries_;  // removed entries are empty; the first never is
  uint64_t head_position_ = 0;                  // of entries_.front()
  std::unordered_map<Version, uint64_t> positions_;
};

}  // namespace gpusnap::history
