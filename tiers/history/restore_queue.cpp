// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/restore_queue.h"

namespace gpusnap::history {

bool RestoreQueue::hint(Version version) {
  if (!positions_.emplace(version, head_position_ + entries_.size()).second) return false;
  entries_.emplace_back(version);
  return true;
}

void RestoreQueue::restored(Version version) {
  const auto found = positions_.find(version);
  if (found == positions_.end()) return;
  entries_[found->second - head_position_].reset();
  positions_.erase(found);
  while (!entries_.empty() && !entries_.front()) {
    entries_.pop_front();
    ++head_position_;
  }
}

std::optional<Version> RestoreQueue::head() const {
  return entries_.empty() ? std::nullopt : entries_.front();
}

std::optional<uint64_t> RestoreQueue::distance(Version version) const {
  const auto found = positions_.find(version);
  if (found == positions_.end()) return std::nullopt;
  return found->second - head_position_;
}

}  // namespace gpusnap::history
