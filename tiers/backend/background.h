// SPDX-License-Identifier: Apache-2.0
// Runs work that no caller waits for, one piece after the other. A thread runs while work is left.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "tiers/mutex.h"
#include "tiers/no_throw.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// One thread calls add() and the destructor.
class Background {
 public:
  explicit Background(Spawn spawn) : spawn_(std::move(spawn)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {  // drops work that has not begun
    {
      const MutexLock lock(mutex_);
      work_.clear();
    }
    if (join_) join_();
  }

  // Fails, and drops all queued work, if no thread can be started.
  Status add(std::function<void()> work) {
    {
      const MutexLock lock(mutex_);
      work_.push_back(std::move(work));
      if (std::exchange(running_, true)) return {};
    }
    if (join_) std::exchange(join_, {})();
    Result<Join> started = start_thread(spawn_, "background", [this] { body(); });
    if (started.ok()) {
      join_ = std::move(started.value());
      return {};
    }
    const MutexLock lock(mutex_);
    work_.clear();
    running_ = false;
    return started.status();
  }

  bool is_busy() const {
    const MutexLock lock(mutex_);
    return running_;
  }

 private:
  void body() {
    for (;;) {
      std::function<void()> work;
      {
        const MutexLock lock(mutex_);
        running_ = !work_.empty();
        if (!running_) return;
        work = std::move(work_.front());
        work_.pop_front();
      }
      (void)no_throw("work in the background", [&] {
        work();
        return Status();
      });
    }
  }

  const Spawn spawn_;
  mutable Mutex mutex_;
  std::deque<std::function<void()>> work_ GUARDED_BY(mutex_);
  bool running_ GUARDED_BY(mutex_) = false;
  Join join_;
};

}  // namespace gpusnap
