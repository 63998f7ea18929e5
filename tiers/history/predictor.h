// SPDX-License-Identifier: Apache-2.0
//
// Estimates when a copy will be evictable: predict_evictable() of the GPU cache and prefetch paper
// (section 4.2), which names what it depends on and gives no formula. Pure logic: the caller
// measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpusnap::history {

// A copy that waits for its flush to the next slower tier, or is being flushed.
struct AwaitedFlush {
  uint64_t bytes_ahead = 0;  // of copies that are flushed before it
  uint64_t bytes_left = 0;   // of its own
  int64_t fill_left_ns = 0;  // until the copy itself has all its bytes
};

// A copy that is being read from the next slower tier, or waits to be delivered.
struct AwaitedRestore {
  int64_t read_left_ns = 0;
  uint64_t distance = 0;  // in the restore queue
};

// Not thread-safe.
class Predictor {
 public:
  // `first_bandwidth` (bytes per second) counts until a transfer has been measured.
  explicit Predictor(double first_bandwidth) : first_bandwidth_(first_bandwidth) {}

  void transferred(uint64_t bytes, int64_t took_ns);  // to the next slower tier
  void restored(int64_t since_last_restore_ns);

  // Bytes per second: the bytes of the last kWindow transfers over the time that they took.
  double bandwidth() const;
  int64_t mean_between_restores_ns() const;

  // The later of both; 0 if neither applies.
  int64_t ready_in_ns(const std::optional<AwaitedFlush>& flush,
                      const std::optional<AwaitedRestore>& restore) const;

 private:
  static constexpr size_t kWindow = 16;
  struct Transfer {
    uint64_t bytes = 0;
    int64_t took_ns = 0;
  };
  const double first_bandwidth_;
  std::deque<Transfer> transfers_;
  std::deque<int64_t> intervals_ns_;
};

}  // namespace gpusnap::history
