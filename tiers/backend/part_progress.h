// SPDX-License-Identifier: Apache-2.0
// How far one rank's part of a checkpoint has come on its way to the store, and what the part's
// thread does next. Other threads report here; the part's thread waits here. Touches no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <unordered_set>

#include "tiers/mutex.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe. Calls nobody back: jobs are run by the thread that takes them, without a lock held.
class PartProgress {
 public:
  // Work for the part's thread. A status that is not ok ends the part.
  using Job = std::function<Status()>;

  // Ends the part early; the first reason counts. Does not stop the writers: see
  // PartSegments::abandon().
  void end(const Status& why);
  // Ends the part early as well, and says that everything stays for another backend.
  void leave(const Status& why);
  bool gave_up() const;  // it ends early
  bool has_left() const;
  Status status() const;  // why it ends early; ok: it does not

  // Takes up what an earlier backend left: the slots that it stored, and the chunks whose bytes are
  // not in segments yet. Once, before all that follows.
  void take_up(std::unordered_set<uint64_t> slots, std::set<uint32_t> chunks);

  enum class Expected : uint8_t {
    kNew,
    kFound,  // an earlier backend has stored it
    kTwice,
  };
  // A slot has arrived.
  Expected expect(uint64_t sequence);
  // No slot arrives any more: there are so many in all.
  void seal(uint64_t slots);
  std::optional<uint64_t> sealed() const;
  // So many slots are in files, some of them in these chunks. A slot is told of once.
  void add_stored(uint64_t slots, const std::set<uint32_t>& chunks);
  // All of the chunk is in a segment.
  void chunk_moved(uint32_t number);
  // From now on the part cannot be held by local tiers.
  void local_failed();

  // A chunk's copy is on its way to a segment; `then` is a job for its end. Each copy that has
  // begun ends.
  void copy_begun();
  void copy_ended(Job then);
  void wait_for_copies();

  void add_job(Job job);
  // Before all jobs that add_job() was given.
  void add_urgent_job(Job job);

  enum class Next : uint8_t {
    kEnded,  // early; see status()
    kWhole,  // all of it is in segments
    kLost,   // slots are missing, and nobody brings them any more
    kHold,   // all of it is in files: they are to be synced, so that the part outlives the
             // machine's memory. Said once
    kJob,    // `job` is to be run
  };
  // Waits until there is something to do. By the part's thread.
  Next wait_for_next(Job& job);

 private:
  std::optional<Next> next() const REQUIRES(mutex_);
  bool is_lost() const REQUIRES(mutex_) {
    return sealed_ && found_.size() + expected_.size() != *sealed_;
  }
  // All slots are in files, of whatever tier.
  bool is_stored() const REQUIRES(mutex_) { return sealed_ && !is_lost() && stored_ == *sealed_; }
  bool is_whole() const REQUIRES(mutex_) {
    return is_stored() && unmoved_.empty() && copies_ == 0 && jobs_.empty();
  }
  bool wants_to_be_held() const REQUIRES(mutex_) {
    return is_stored() && !unmoved_.empty() && !said_hold_ && !local_failed_;
  }

  mutable Mutex mutex_;
  ConditionVariable changed_;
  Status status_ GUARDED_BY(mutex_);  // why it ends early
  bool left_ GUARDED_BY(mutex_) = false;
  std::unordered_set<uint64_t> found_ GUARDED_BY(mutex_);  // slots that an earlier backend stored
  std::unordered_set<uint64_t> expected_ GUARDED_BY(mutex_);
  uint64_t stored_ GUARDED_BY(mutex_) = 0;  // slots, of both
  std::optional<uint64_t> sealed_ GUARDED_BY(mutex_);
  std::set<uint32_t> unmoved_ GUARDED_BY(mutex_);  // chunks with blocks in them
  size_t copies_ GUARDED_BY(mutex_) = 0;           // on their way
  bool said_hold_ GUARDED_BY(mutex_) = false;
  bool local_failed_ GUARDED_BY(mutex_) = false;
  std::deque<Job> urgent_jobs_ GUARDED_BY(mutex_);
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
