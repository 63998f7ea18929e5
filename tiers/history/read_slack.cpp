// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/read_slack.h"

#include <algorithm>

namespace gpusnap::history {

ReadSlack::ReadSlack(const RestoreQueue& queue, int64_t pace_ns, const ReadTime& read_time)
    : queue_(queue), spare_ns_(std::min(queue.span(), kMostHints)) {
  int64_t computing_ns = 0, reading_ns = 0;
  for (uint64_t distance = 0; distance < spare_ns_.size(); ++distance, computing_ns += pace_ns) {
    if (const auto version = queue.at(distance)) reading_ns += read_time(*version);
    spare_ns_[distance] = computing_ns - reading_ns;
  }
  for (size_t at = spare_ns_.size(); at-- > 1;) {
    spare_ns_[at - 1] = std::min(spare_ns_[at - 1], spare_ns_[at]);
  }
}

bool ReadSlack::hides(Version version, int64_t read_ns) const {
  const auto distance = queue_.distance(version);
  return distance && *distance < spare_ns_.size() && read_ns <= spare_ns_[*distance];
}

}  // namespace gpusnap::history
