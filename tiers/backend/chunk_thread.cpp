// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/chunk_thread.h"

#include <utility>

#include "tiers/no_throw.h"

namespace gpusnap {

ChunkThread::ChunkThread(Spawn spawn, Actions actions)
    : spawn_(std::move(spawn)), actions_(std::move(actions)) {}

ChunkThread::~ChunkThread() {
  end();
  join();
}

bool ChunkThread::add(Job& job) {
  if (!join_ && !start()) return false;
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void ChunkThread::end() {
  std::unique_lock lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !is_working_; });
}

void ChunkThread::join() {
  if (join_) std::exchange(join_, {})();
}

bool ChunkThread::start() {
  Result<Join> thread = start_thread(spawn_, "chunks", [this] { body(); });
  if (!thread.ok()) return false;
  join_ = std::move(thread.value());
  return true;
}

void ChunkThread::body() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return has_ended_ || !jobs_.empty(); });
    if (has_ended_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_working_ = true;
    lock.unlock();
    work(job);
    job = nullptr;  // what it holds goes before end() returns
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }
}

void ChunkThread::work(const Job& job) const {
  if (actions_.gave_up()) return;
  const Status done = no_throw("make a chunk", job);
  if (!done.ok()) actions_.failed(done);
}

}  // namespace gpusnap
