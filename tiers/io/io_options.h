// SPDX-License-Identifier: Apache-2.0
// Options of bulk transfers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "tiers/spawn.h"

namespace gpusnap {

enum class IoKind {
  kUring,    // io_uring for direct I/O, threads for the rest
  kThreads,  // threads for everything
};

// The calls that the threads make. Tests replace them to shorten transfers or to fail.
struct IoCalls {
  ssize_t (*write)(int fd, const void* data, size_t size, off_t offset);
  ssize_t (*read)(int fd, void* data, size_t size, off_t offset);
};
IoCalls system_io_calls();

struct IoOptions {
  IoKind kind = IoKind::kUring;  // kThreads if the kernel lacks or forbids io_uring
  unsigned threads = 4;          // that make blocking calls
  unsigned depth = 16;           // pieces in flight in the ring, bounded by the ring's limit
  // Bytes of one request to the kernel: a power of two from 64 KiB to 1 GiB.
  size_t piece_bytes = size_t{4} << 20;
  bool direct = true;  // use direct I/O if the file system supports it
  Spawn spawn;         // starts the threads; empty: std::thread
  IoCalls calls = system_io_calls();
};

// The most threads that an engine with the default options starts: these and the ring's.
inline constexpr int kIoThreads = 5;

// Counts since the engine began. Bytes count after their transfer.
struct IoStatistics {
  uint64_t bytes_written = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_direct = 0;  // bytes of both by direct I/O
  uint64_t transfers_ended = 0;
  uint64_t transfers_in_flight = 0;
  uint64_t most_pieces_in_flight = 0;
};

}  // namespace gpusnap
