// SPDX-License-Identifier: Apache-2.0
// Moves the bytes of bulk files: the threads and the ring that all of them share.
//
// A transfer is cut into pieces of the size that devices like. Pieces that go past the page cache
// are handed to io_uring, which needs no thread for each piece on its way. Pieces that go through
// the cache are the threads' work: a processor copies them anyhow, and io_uring would only bring
// kernel threads of its own for them. Without io_uring the threads do both. Threads sleep when
// there is nothing to do.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "tiers/io/io_file.h"
#include "tiers/io/io_options.h"
#include "tiers/io/ring.h"
#include "tiers/io/system_call.h"
#include "tiers/mutex.h"

namespace gpusnap {

// How a transfer came to its end.
struct IoOutcome {
  enum class Kind { kOk, kFailed, kFileEnded };
  Kind kind = Kind::kOk;
  int error = 0;        // errno; kFailed
  uint64_t offset = 0;  // where the file ended; kFileEnded
};

// Bytes between memory and a file. Made by who wants them moved, owned by the engine meanwhile.
class IoTransfer {
 public:
  IoTransfer(IoFile& file, bool writing, uint64_t offset, std::byte* data, uint64_t size)
      : file_(file), writing_(writing), offset_(offset), data_(data), size_(size), left_(size) {}
  IoTransfer(const IoTransfer&) = delete;
  IoTransfer& operator=(const IoTransfer&) = delete;
  virtual ~IoTransfer() = default;

  bool writing() const { return writing_; }
  uint64_t offset() const { return offset_; }
  uint64_t size() const { return size_; }

 protected:
  // All is done, or has failed somewhere and what had not begun by then was left out. Called once,
  // by a thread of the engine's or by IoEngine::start(), under no lock. Does not throw.
  virtual void ended(const IoOutcome& outcome) = 0;

 private:
  friend class IoEngine;

  IoFile& file_;  // outlives the transfer
  const bool writing_;
  const uint64_t offset_;
  std::byte* const data_;
  const uint64_t size_;
  std::atomic<uint64_t> left_;  // bytes that are neither moved nor given up
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  IoOutcome outcome_;  // the first that was not ok
};

// Thread-safe.
class IoEngine {
 public:
  explicit IoEngine(IoOptions options = {});
  IoEngine(const IoEngine&) = delete;
  IoEngine& operator=(const IoEngine&) = delete;
  // No transfer may be on its way.
  ~IoEngine();

  // Returns the kind in use: kThreads if io_uring is not available.
  IoKind kind() const { return ring_ ? IoKind::kUring : IoKind::kThreads; }
  const IoOptions& options() const { return options_; }
  // False in a forked child: it has none of the threads.
  bool usable() const;

  // Begins it, with usable(). Throws std::bad_alloc, and has then done nothing; the transfer is
  // taken otherwise. Where no thread could be started it moves the bytes itself.
  void start(std::unique_ptr<IoTransfer>& transfer);

  IoStatistics statistics() const;

 private:
  // Bytes of a transfer, from `begin` to `end`.
  struct Range {
    IoTransfer* transfer = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool direct = false;
    uint64_t size() const { return end - begin; }
  };
  using Ranges = std::list<Range>;  // spliced, so that nothing is allocated under the lock
  class RingLoop;

  void start_ring();
  void start_threads();
  void wake_ring() const;
  void work();
  Range take_piece(Ranges& queue) REQUIRES(mutex_);
  void perform(const Range& piece);
  void hand_to_threads(const Range& piece);
  void move_bytes(Range& rest, IoOutcome& outcome);
  void settle(const Range& piece, const IoOutcome& outcome);
  void count(const Range& piece, uint64_t bytes);

  const IoOptions options_;
  const pid_t owner_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<RingLoop> ring_loop_;  // its thread works on it
  Descriptor wake_;                      // of the ring's thread
  std::vector<Join> threads_;
  Join ring_thread_;

  mutable Mutex mutex_;
  ConditionVariable work_;
  Ranges for_ring_ GUARDED_BY(mutex_);
  Ranges for_threads_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  uint64_t pieces_in_flight_ GUARDED_BY(mutex_) = 0;
  uint64_t most_pieces_in_flight_ GUARDED_BY(mutex_) = 0;

  std::atomic<uint64_t> bytes_written_ = 0;
  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<uint64_t> bytes_direct_ = 0;
  std::atomic<uint64_t> begun_ = 0;
  std::atomic<uint64_t> ended_ = 0;
};

// The process's own. Made at first use, lives for ever.
IoEngine& shared_io_engine();
// How it is to be made: for those who bring threads of their own. Before its first use; later calls
// change nothing.
void set_shared_io_options(IoOptions options);

}  // namespace gpusnap
