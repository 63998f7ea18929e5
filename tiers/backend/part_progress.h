// SPDX-License-Identifier: Apache-2.0
// The progress of one rank's part of a checkpoint on its way to the store, and the decision what
// the part's thread does next. Other threads report here; the part's thread waits here. No file is
// touched.
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

// Thread-safe. Makes no calls back: the thread that takes a job runs it, without a lock held.
class PartProgress {
 public:
  // Work for the part's thread. A status that is not ok ends the part.
  using Job = std::function<Status()>;

  // Ends the part early. The first reason is kept. Does not stop the writers: see
  // PartSegments::abandon().
  void end(const Status& why);
  // Ends the part early and leaves everything to another backend.
  void leave(const Status& why);
  bool gave_up() const;  // the part ends early
  bool has_left() const;
  Status status() const;  // the reason for an early end; ok: there is none

  // Takes over what an earlier backend left: the slots that it stored, and the chunks whose bytes
  // are not in segments yet. Called once, before all functions below.
  void take_up(std::unordered_set<uint64_t> slots, std::set<uint32_t> chunks);

  enum class Expected : uint8_t {
    kNew,
    kFound,  // an earlier backend has stored it
    kTwice,
  };
  // A slot has arrived.
  Expected expect(uint64_t sequence);
  // Sets the number of slots. No slot arrives after this.
  void seal(uint64_t slots);
  std::optional<uint64_t> sealed() const;
  // Counts slots that are in files, some of them in these chunks. Each slot is reported once.
  void add_stored(uint64_t slots, const std::set<uint32_t>& chunks);
  // All bytes of the chunk are in a segment.
  void chunk_moved(uint32_t number);
  // A local tier failed: local tiers cannot hold the whole part any more.
  void local_failed();

  // Begin and end of copying a chunk to a segment. `then` becomes a job. Each copy that begins also
  // ends.
  void copy_begun();
  void copy_ended(Job then);
  void wait_for_copies();

  void add_job(Job job);
  // Adds a job that is taken before all jobs of add_job().
  void add_urgent_job(Job job);

  enum class Next : uint8_t {
    kEnded,  // the part ends early; see status()
    kWhole,  // all slots are in segments
    kLost,   // slots are missing and will not arrive
    kHold,   // all slots are in files, which are to be synced, so that the part outlives the
             // machine's memory. Returned once
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
  Status status_ GUARDED_BY(mutex_);  // the reason for an early end
  bool left_ GUARDED_BY(mutex_) = false;
  std::unordered_set<uint64_t> found_ GUARDED_BY(mutex_);  // slots that an earlier backend stored
  std::unordered_set<uint64_t> expected_ GUARDED_BY(mutex_);
  uint64_t stored_ GUARDED_BY(mutex_) = 0;  // slots, of found_ and expected_
  std::optional<uint64_t> sealed_ GUARDED_BY(mutex_);
  std::set<uint32_t> unmoved_ GUARDED_BY(mutex_);  // chunks with blocks in them
  size_t copies_ GUARDED_BY(mutex_) = 0;           // in flight
  bool said_hold_ GUARDED_BY(mutex_) = false;
  bool local_failed_ GUARDED_BY(mutex_) = false;
  std::deque<Job> urgent_jobs_ GUARDED_BY(mutex_);
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
