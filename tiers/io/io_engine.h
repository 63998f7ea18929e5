// SPDX-License-Identifier: Apache-2.0
// Transfers the bytes of bulk files with threads and a ring that all files share.
//
// A transfer is divided into pieces of the size that suits devices. Pieces that bypass the page
// cache go to io_uring, which needs no thread for each piece in flight. Pieces that go through the
// cache go to the threads: a processor copies them anyway, and io_uring would only start kernel
// threads for them. Without io_uring the threads transfer both. Idle threads sleep.
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

// The outcome of a transfer.
struct IoOutcome {
  enum class Kind { kOk, kFailed, kFileEnded };
  Kind kind = Kind::kOk;
  int error = 0;        // errno; kFailed
  uint64_t offset = 0;  // end of the file; kFileEnded
};

// A transfer of bytes between memory and a file. The engine owns it while it is in flight.
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
  // The transfer has ended: all bytes were transferred, or one piece has failed and those that had
  // not begun were left out. Called once, by a thread of the engine or by IoEngine::start(),
  // without a lock held. Does not throw.
  virtual void ended(const IoOutcome& outcome) = 0;

 private:
  friend class IoEngine;

  IoFile& file_;  // outlives the transfer
  const bool writing_;
  const uint64_t offset_;
  std::byte* const data_;
  const uint64_t size_;
  std::atomic<uint64_t> left_;  // bytes that are neither transferred nor abandoned
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  IoOutcome outcome_;  // the first failure
};

// Thread-safe.
class IoEngine {
 public:
  explicit IoEngine(IoOptions options = {});
  IoEngine(const IoEngine&) = delete;
  IoEngine& operator=(const IoEngine&) = delete;
  // No transfer may be in flight.
  ~IoEngine();

  // Returns the kind in use: kThreads if io_uring is not available.
  IoKind kind() const { return ring_ ? IoKind::kUring : IoKind::kThreads; }
  const IoOptions& options() const { return options_; }
  // Returns false in a forked child, which has none of the threads.
  bool usable() const;

  // Takes the transfer and begins it. Only if usable(). May throw std::bad_alloc; then the transfer
  // was not taken. If no thread could be started, transfers the bytes itself.
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
  std::unique_ptr<RingLoop> ring_loop_;  // used by the ring's thread
  Descriptor wake_;                      // wakes the ring's thread
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

// The engine of this process. Made at its first use, never destroyed.
IoEngine& shared_io_engine();
// Sets the options of that engine, for programs with their own threads. Calls after its first use
// have no effect.
void set_shared_io_options(IoOptions options);

}  // namespace gpusnap
