// SPDX-License-Identifier: Apache-2.0
// A thread that writes to local tiers, so that a part's or journal's own thread, which may wait for
// the store, does not hold that up. The thread starts with the first job, does one job after the
// other, and ends with end() and join().
#pragma once

#include <deque>
#include <functional>

#include "tiers/mutex.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

class JobThread {
 public:
  using Job = std::function<Status()>;
  struct Actions {
    // Asked before each job: whether to drop the job instead.
    std::function<bool()> gave_up;
    // A job has failed. Called by the thread, without a lock held.
    std::function<void(const Status& why)> failed;
  };

  // `name`: the thread's, a literal. All that `actions` use outlives the thread.
  JobThread(Spawn spawn, const char* name, Actions actions);
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  ~JobThread();  // ends and joins

  // Starts the thread if there is none yet. Returns false, and leaves the job alone, if no thread
  // can be had; the next call tries again. By one thread at a time.
  bool add(Job& job);
  // No job begins any more. Waits until the job that runs has ended; jobs that have not begun are
  // never done. Any thread but this one.
  void end();
  // Waits until the thread has ended, after end(). Called by the thread that calls add().
  void join();

 private:
  bool start();
  void body();
  void work(const Job& job) const;

  const Spawn spawn_;
  const char* const name_;
  const Actions actions_;
  Join join_;  // used by the thread that calls add() and join()

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  bool is_working_ GUARDED_BY(mutex_) = false;
  bool has_ended_ GUARDED_BY(mutex_) = false;
};

}  // namespace gpusnap
