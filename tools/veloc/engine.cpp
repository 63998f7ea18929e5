// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/engine.h"

#include <utility>

namespace gpusnap::veloc {

namespace {
constexpr size_t kProgram = 0;  // its lane
}  // namespace

Engine::Engine(const history::Planner::Options& options, Clock& clock, Move move)
    : move_(std::move(move)),
      clock_(clock),
      planner_(options),
      lanes_(history::Planner::lanes(options.caches.size())) {}

Status Engine::start() {
  for (size_t lane = kProgram + 1; lane < lanes_.size(); ++lane) {
    Result<Join> started = start_thread({}, "history", [this, lane] { run(lane); });
    if (!started.ok()) return started.status();
    threads_.push_back(std::move(started.value()));
  }
  return {};
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    for (Lane& lane : lanes_) lane.has_work.notify_all();
  }
  for (const Join& join : threads_) join();
}

// ---- The program's thread

Status Engine::write(Version version, uint64_t bytes, int fastest) {
  std::unique_lock lock(mutex_);
  tell_pace();
  if (!planner_.write(version, bytes, fastest)) {
    return {Code::kInvalid, "it was written already"};
  }
  return wait_for_outcome(lock);
}

Status Engine::write_held(Version version, uint64_t bytes, int fastest) {
  std::unique_lock lock(mutex_);
  tell_pace();
  if (!planner_.write_held(version, bytes, fastest)) {
    return {Code::kInvalid, "it was written already"};
  }
  return wait_for_outcome(lock);
}

void Engine::release(Version version) {
  const std::lock_guard lock(mutex_);
  planner_.release(version);
  plan();
}

void Engine::give_up(Version version) {
  const std::lock_guard lock(mutex_);
  planner_.give_up(version);
  plan();
}

Status Engine::restore(Version version, bool is_part) {
  std::unique_lock lock(mutex_);
  tell_pace();
  const int64_t now = clock_.now_ns();
  const int64_t since_last = last_restore_ns_ == 0 ? 0 : now - last_restore_ns_;
  const bool exists =
      is_part ? planner_.restore_part(version, since_last) : planner_.restore(version, since_last);
  if (!exists) return {Code::kNotFound, "it does not exist"};
  last_restore_ns_ = now;
  return wait_for_outcome(lock);
}

void Engine::end_restore(Version version, bool success) {
  const std::lock_guard lock(mutex_);
  planner_.end_restore(version, success);
  plan();
}

void Engine::tell_pace() {
  if (last_answer_ns_ != 0) planner_.computed(clock_.now_ns() - last_answer_ns_);
}

Status Engine::wait_for_outcome(std::unique_lock<std::mutex>& lock) {
  failure_ = {};
  plan();
  while (!planner_.outcome().has_value()) {
    if (lanes_[kProgram].next) {
      carry_out(lock, kProgram);
    } else {
      lanes_[kProgram].has_work.wait(lock);
    }
  }
  last_answer_ns_ = clock_.now_ns();
  if (*planner_.outcome()) return {};
  return failure_.ok() ? Status(Code::kNotFound, "no tier has it any more") : failure_;
}

// ---- Others

void Engine::adopt(Version version, uint64_t bytes, int fastest) {
  const std::lock_guard lock(mutex_);
  (void)planner_.adopt(version, bytes, fastest);
  plan();
}

void Engine::hint(Version version) {
  const std::lock_guard lock(mutex_);
  planner_.hint(version);
  plan();
}

void Engine::start_prefetching() {
  const std::lock_guard lock(mutex_);
  planner_.start_prefetching();
  plan();
}

bool Engine::is_flushed() const {
  const std::lock_guard lock(mutex_);
  return planner_.is_flushed();
}

Status Engine::wait_until_flushed() {
  std::unique_lock lock(mutex_);
  flushed_.wait(lock, [this] { return planner_.is_flushed(); });
  last_answer_ns_ = clock_.now_ns();
  if (planner_.not_flushed().size() == not_flushed_) return {};
  not_flushed_ = planner_.not_flushed().size();
  return std::exchange(flush_failure_, {});
}

void Engine::discard_consumed() {
  const std::lock_guard lock(mutex_);
  planner_.discard_consumed();
  plan();
}

// ---- Lanes

void Engine::plan() {
  for (Transfer& transfer : planner_.plan()) {
    Lane& lane = lanes_[transfer.lane];
    lane.next = std::move(transfer);
    lane.has_work.notify_all();
  }
  if (planner_.outcome().has_value()) lanes_[kProgram].has_work.notify_all();
  if (planner_.is_flushed()) flushed_.notify_all();
}

void Engine::run(size_t lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    lanes_[lane].has_work.wait(lock, [&] { return is_ending_ || lanes_[lane].next; });
    if (is_ending_) return;
    carry_out(lock, lane);
  }
}

void Engine::carry_out(std::unique_lock<std::mutex>& lock, size_t lane) {
  const Transfer transfer = *std::exchange(lanes_[lane].next, std::nullopt);
  lock.unlock();
  const int64_t begin = clock_.now_ns();
  Moved moved = move_(transfer);
  const int64_t took = clock_.now_ns() - begin;
  lock.lock();
  planner_.finished(transfer.id, moved.outcome, took);
  if (!moved.status.ok() && lane == kProgram) failure_ = moved.status;
  if (!moved.status.ok() && transfer.to > transfer.from) flush_failure_ = std::move(moved.status);
  plan();
}

}  // namespace gpusnap::veloc
