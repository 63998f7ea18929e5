// SPDX-License-Identifier: Apache-2.0
//
// Carries out what the planner decides: one thread for each path between two tiers (GPU cache and
// prefetch paper, section 4.3.1), and the program's own thread for what it writes and restores.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tiers/clock.h"
#include "tiers/history/planner.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap::veloc {

using history::Outcome;
using history::Transfer;
using history::Version;

// The result of moving a checkpoint, and why it failed if it did.
struct Moved {
  Outcome outcome = Outcome::kDone;
  Status status;
};

// The program's thread calls write() and restore(), one at a time; everything else is thread-safe.
// One lock, which is not held while anything moves.
class Engine {
 public:
  // Moves a checkpoint's bytes. Called by the thread of the transfer's lane, or the program's,
  // which is lane 0; for several lanes at the same time.
  using Move = std::function<Moved(const Transfer& transfer)>;

  Engine(const history::Planner::Options& options, Clock& clock, Move move);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends what is moving, and nothing more.
  ~Engine();
  Status start();

  // `fastest`: the checkpoint is kept on no faster tier. kInvalid: the version exists.
  Status write(Version version, uint64_t bytes, int fastest);
  // As Planner::write_held(), release() and give_up().
  Status write_held(Version version, uint64_t bytes, int fastest);
  void release(Version version);
  void give_up(Version version);
  // The last tier holds it since an earlier run.
  void adopt(Version version, uint64_t bytes, int fastest);
  // `is_part`: until end_restore(), as Planner's.
  Status restore(Version version, bool is_part = false);
  void end_restore(Version version, bool success);

  void hint(Version version);
  void start_prefetching();

  bool is_flushed() const;
  // Waits until all that was written is on the last tier. The first failure since the last call.
  Status wait_until_flushed();
  // Checkpoints that were restored already need not be flushed any more.
  void discard_consumed();

 private:
  struct Lane {
    std::optional<Transfer> next;
    std::condition_variable has_work;
  };

  void plan();
  void run(size_t lane);
  void carry_out(std::unique_lock<std::mutex>& lock, size_t lane);
  void tell_pace();
  Status wait_for_outcome(std::unique_lock<std::mutex>& lock);

  const Move move_;
  Clock& clock_;
  mutable std::mutex mutex_;
  history::Planner planner_;
  std::vector<Lane> lanes_;
  std::condition_variable flushed_;
  bool is_ending_ = false;
  Status failure_;          // of what the program asked for last
  Status flush_failure_;    // of a flush to the last tier
  size_t not_flushed_ = 0;  // that have been told
  int64_t last_restore_ns_ = 0;
  int64_t last_answer_ns_ = 0;  // when the program's last request ended; 0: there was none
  std::vector<Join> threads_;
};

}  // namespace gpusnap::veloc
