// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_progress.h"

#include <utility>

namespace gpusnap {

void PartProgress::end(const Status& why) {
  const MutexLock lock(mutex_);
  if (status_.ok()) status_ = why;
  changed_.notify_all();
}

void PartProgress::leave(const Status& why) {
  const MutexLock lock(mutex_);
  left_ = true;
  if (status_.ok()) status_ = why;
  changed_.notify_all();
}

bool PartProgress::gave_up() const {
  const MutexLock lock(mutex_);
  return !status_.ok();
}

bool PartProgress::has_left() const {
  const MutexLock lock(mutex_);
  return left_;
}

Status PartProgress::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

void PartProgress::take_up(std::unordered_set<uint64_t> slots, std::set<uint32_t> chunks) {
  const MutexLock lock(mutex_);
  found_ = std::move(slots);
  stored_ = found_.size();
  unmoved_ = std::move(chunks);
}

PartProgress::Expected PartProgress::expect(uint64_t sequence) {
  const MutexLock lock(mutex_);
  if (found_.count(sequence) > 0) return Expected::kFound;
  return expected_.insert(sequence).second ? Expected::kNew : Expected::kTwice;
}

void PartProgress::seal(uint64_t slots) {
  const MutexLock lock(mutex_);
  sealed_ = slots;
  changed_.notify_all();
}

std::optional<uint64_t> PartProgress::sealed() const {
  const MutexLock lock(mutex_);
  return sealed_;
}

void PartProgress::add_stored(uint64_t slots, const std::set<uint32_t>& chunks) {
  const MutexLock lock(mutex_);
  stored_ += slots;
  unmoved_.insert(chunks.begin(), chunks.end());
  changed_.notify_all();
}

void PartProgress::chunk_moved(uint32_t number) {
  const MutexLock lock(mutex_);
  unmoved_.erase(number);
  changed_.notify_all();
}

void PartProgress::local_failed() {
  const MutexLock lock(mutex_);
  local_failed_ = true;
}

void PartProgress::copy_begun() {
  const MutexLock lock(mutex_);
  ++copies_;
}

void PartProgress::copy_ended(Job then) {
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(then));
  --copies_;
  changed_.notify_all();
}

void PartProgress::wait_for_copies() {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return copies_ == 0; });
}

void PartProgress::add_job(Job job) {
  const MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void PartProgress::add_urgent_job(Job job) {
  const MutexLock lock(mutex_);
  urgent_jobs_.push_back(std::move(job));
  changed_.notify_all();
}

PartProgress::Next PartProgress::wait_for_next(Job& job) {
  const MutexLock lock(mutex_);
  std::optional<Next> found;
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return (found = next()).has_value(); });
  if (*found == Next::kHold) said_hold_ = true;
  if (*found == Next::kJob) {
    std::deque<Job>& jobs = urgent_jobs_.empty() ? jobs_ : urgent_jobs_;
    job = std::move(jobs.front());
    jobs.pop_front();
  }
  return *found;
}

std::optional<PartProgress::Next> PartProgress::next() const {
  if (!status_.ok()) return Next::kEnded;
  if (is_whole()) return Next::kWhole;
  if (!urgent_jobs_.empty()) return Next::kJob;
  if (wants_to_be_held()) return Next::kHold;
  if (!jobs_.empty()) return Next::kJob;
  return is_lost() ? std::optional(Next::kLost) : std::nullopt;
}

}  // namespace gpusnap
