// SPDX-License-Identifier: Apache-2.0
// Keeps a large file out of the page cache although it is written through it: what was written is
// sent to the device at once and dropped when it has arrived, so that a checkpoint never takes the
// place of the programs' own files, and a sync at the end finds little left to do.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "tiers/mutex.h"

namespace gpusnap {

// Thread-safe.
class WriteBehind {
 public:
  static constexpr uint64_t kWindow = 32 << 20;  // bytes of a file that may be on their way
  static constexpr uint64_t kLeast = 64 << 10;   // smaller writes are sent together

  explicit WriteBehind(int fd) : fd_(fd) {}

  // After each write. Starts to write it back, and waits for what was written kWindow before it.
  // 0, or the error with which the device refused something: the system tells it once only, so it
  // must be told on.
  int wrote(uint64_t offset, uint64_t size);
  // Drops all that has reached the device.
  void drop_all();

 private:
  using Piece = std::pair<uint64_t, uint64_t>;  // offset, size
  int wait_and_drop(const Piece& piece);

  const int fd_;
  Mutex mutex_;
  std::deque<Piece> started_ GUARDED_BY(mutex_);
  uint64_t started_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t loose_bytes_ GUARDED_BY(mutex_) = 0;  // of small writes
};

}  // namespace gpusnap
