// SPDX-License-Identifier: Apache-2.0
// The parts of each job that are in flight. They make commits of one job and rank happen in the
// order of epochs, and keep an epoch that is being written from being pruned.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tiers/mutex.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe. A job is identified by its folder.
class Turns {
 public:
  // Returns kBusy if a part of that rank and epoch is in flight already: each of two such parts
  // would take the other's files for its own.
  Status enter(const std::string& job, uint32_t rank, uint64_t epoch) {
    const MutexLock lock(mutex_);
    if (jobs_[job][rank].insert(epoch).second) return {};
    return {Code::kBusy, "checkpoint " + std::to_string(epoch) + " of rank " +
                             std::to_string(rank) + " in " + job + " is on its way already"};
  }
  void leave(const std::string& job, uint32_t rank, uint64_t epoch) {
    const MutexLock lock(mutex_);
    jobs_[job][rank].erase(epoch);
    changed_.notify_all();
  }
  // Waits until no earlier epoch of that rank is in flight, or `gave_up` returns true.
  Status wait(const std::string& job, uint32_t rank, uint64_t epoch,
              const std::function<bool()>& gave_up) {
    constexpr auto kLook = std::chrono::milliseconds(20);
    const MutexLock lock(mutex_);
    while (*jobs_[job][rank].begin() < epoch) {
      changed_.wait_for(mutex_, kLook);
      const Unlocked unlocked(mutex_);
      if (gave_up()) return {Code::kInvalid, "the checkpoint was abandoned"};
    }
    return {};
  }
  bool is_writing(const std::string& job, uint64_t epoch) const {
    const MutexLock lock(mutex_);
    const auto ranks = jobs_.find(job);
    return ranks != jobs_.end() && std::ranges::any_of(ranks->second, [&](const auto& rank) {
             return rank.second.count(epoch) > 0;
           });
  }

  // A run has committed that epoch of the job. Epochs rise and one run writes at a time, so all
  // epochs from its first one on belong to that run.
  void committed(const std::string& job, const std::string& run, uint64_t epoch) {
    const MutexLock lock(mutex_);
    auto& first = first_[job];
    if (first.first != run) first = {run, epoch};
  }
  bool is_of_run(const std::string& job, const std::string& run, uint64_t epoch) const {
    const MutexLock lock(mutex_);
    const auto found = first_.find(job);
    return found != first_.end() && found->second.first == run && found->second.second <= epoch;
  }

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  // Epochs in flight, by job and rank.
  std::map<std::string, std::map<uint32_t, std::set<uint64_t>>> jobs_ GUARDED_BY(mutex_);
  // The first epoch of the run that committed last, by job: run, epoch.
  std::map<std::string, std::pair<std::string, uint64_t>> first_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
