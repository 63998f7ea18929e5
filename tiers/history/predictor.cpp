// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/predictor.h"

#include <algorithm>
#include <numeric>

namespace gpusnap::history {

void Predictor::transferred(uint64_t bytes, int64_t took_ns) {
  if (took_ns <= 0) return;
  transfers_.push_back({bytes, took_ns});
  if (transfers_.size() > kWindow) transfers_.pop_front();
}

void Predictor::restored(int64_t since_last_restore_ns) {
  intervals_ns_.push_back(std::max<int64_t>(since_last_restore_ns, 0));
  if (intervals_ns_.size() > kWindow) intervals_ns_.pop_front();
}

double Predictor::bandwidth() const {
  if (transfers_.empty()) return first_bandwidth_;
  double bytes = 0, ns = 0;
  for (const Transfer& transfer : transfers_) {
    bytes += static_cast<double>(transfer.bytes);
    ns += static_cast<double>(transfer.took_ns);
  }
  return bytes / ns * 1e9;
}

int64_t Predictor::mean_between_restores_ns() const {
  if (intervals_ns_.empty()) return 0;
  return std::accumulate(intervals_ns_.begin(), intervals_ns_.end(), int64_t{0}) /
         static_cast<int64_t>(intervals_ns_.size());
}

int64_t Predictor::ready_in_ns(const std::optional<AwaitedFlush>& flush,
                               const std::optional<AwaitedRestore>& restore) const {
  int64_t ready = 0;
  if (flush) {
    const auto bytes = static_cast<double>(flush->bytes_ahead + flush->bytes_left);
    ready = flush->fill_left_ns + static_cast<int64_t>(bytes / bandwidth() * 1e9);
  }
  if (restore) {
    const auto deliveries = static_cast<int64_t>(restore->distance + 1);
    ready = std::max(ready, restore->read_left_ns + deliveries * mean_between_restores_ns());
  }
  return ready;
}

}  // namespace gpusnap::history
