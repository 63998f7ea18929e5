// SPDX-License-Identifier: Apache-2.0
// How bulk transfers are made.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "tiers/spawn.h"

namespace gpusnap {

enum class IoKind {
  kUring,    // io_uring for what goes past the page cache, threads for the rest
  kThreads,  // threads for all
};

// The calls that the threads make, so that tests can cut them short or refuse them.
struct IoCalls {
  ssize_t (*write)(int fd, const void* data, size_t size, off_t offset);
  ssize_t (*read)(int fd, void* data, size_t size, off_t offset);
};
IoCalls system_io_calls();

struct IoOptions {
  IoKind kind = IoKind::kUring;  // where the kernel has it and allows it; else kThreads
  unsigned threads = 4;          // that make calls which block
  unsigned depth = 16;           // pieces on their way in the ring; the ring's limit bounds it
  // Bytes of one request to the kernel: a power of two from 64 KiB to 1 GiB.
  size_t piece_bytes = size_t{4} << 20;
  bool direct = true;  // past the page cache, where the file system has that
  Spawn spawn;         // makes the threads; std::thread where it is empty
  IoCalls calls = system_io_calls();
};

// The most threads that an engine with the default options asks of `spawn`: those and the ring's.
inline constexpr int kIoThreads = 5;

// Since the engine began. Bytes count when they have been transferred.
struct IoStatistics {
  uint64_t bytes_written = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_direct = 0;  // of both, past the page cache
  uint64_t transfers_ended = 0;
  uint64_t transfers_in_flight = 0;
  uint64_t most_pieces_in_flight = 0;
};

}  // namespace gpusnap
