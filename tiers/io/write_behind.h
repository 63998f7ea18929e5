// SPDX-License-Identifier: Apache-2.0
// Keeps a large file out of the page cache although it is written through it. Written bytes are
// sent to the device at once and dropped from the cache after they have arrived. A checkpoint
// therefore does not displace the programs' own files, and the final sync has little left to do.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "tiers/mutex.h"

namespace gpusnap {

// Thread-safe.
class WriteBehind {
 public:
  static constexpr uint64_t kWindow = 32 << 20;  // bytes of a file that may be in flight
  static constexpr uint64_t kLeast = 64 << 10;   // smaller writes are sent together

  explicit WriteBehind(int fd) : fd_(fd) {}

  // To be called after each write. Starts to write the bytes back, and waits for the bytes written
  // kWindow before them. Returns 0 or the device's error, which the caller has to report: the
  // system reports it only once.
  int wrote(uint64_t offset, uint64_t size);
  // Drops all bytes that have reached the device from the cache.
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
