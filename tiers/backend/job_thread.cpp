// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/job_thread.h"

#include <utility>

#include "tiers/no_throw.h"

namespace gpusnap {

JobThread::JobThread(Spawn spawn, const char* name, Actions actions)
    : spawn_(std::move(spawn)), name_(name), actions_(std::move(actions)) {}

JobThread::~JobThread() {
  end();
  join();
}

bool JobThread::add(Job& job) {
  if (!join_ && !start()) return false;
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void JobThread::end() {
  const MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return !is_working_; });
}

void JobThread::join() {
  if (join_) std::exchange(join_, {})();
}

bool JobThread::start() {
  Result<Join> thread = start_thread(spawn_, name_, [this] { body(); });
  if (!thread.ok()) return false;
  join_ = std::move(thread.value());
  return true;
}

void JobThread::body() {
  const MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return has_ended_ || !jobs_.empty(); });
    if (has_ended_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_working_ = true;
    {
      const Unlocked unlocked(mutex_);
      work(job);
      job = nullptr;  // what it holds goes before end() returns
    }
    is_working_ = false;
    changed_.notify_all();
  }
}

void JobThread::work(const Job& job) const {
  if (actions_.gave_up()) return;
  const Status done = no_throw("make a chunk", job);
  if (!done.ok()) actions_.failed(done);
}

}  // namespace gpusnap
