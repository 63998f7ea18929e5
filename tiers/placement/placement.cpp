// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/placement.h"

#include <algorithm>

#include "tiers/no_throw.h"

namespace gpusnap {

Placement::Placement(std::vector<LocalTier> tiers, const Settings& settings)
    : policy_(settings.policy), average_(settings.first_flush_bandwidth, settings.flush_window) {
  tiers_.reserve(tiers.size());
  for (LocalTier& tier : tiers) tiers_.push_back({std::move(tier), {}, false});
}

Result<std::unique_ptr<Placement>> Placement::make(std::vector<LocalTier> tiers,
                                                   const Settings& settings) {
  using Made = Result<std::unique_ptr<Placement>>;
  return no_throw("start the placement of chunks", [&]() -> Made {
    if (settings.flush_window == 0 || !(settings.first_flush_bandwidth >= 0)) {
      return Status(Code::kInvalid,
                    "cannot place chunks: the average of flushes needs a window of at least one "
                    "flush and a bandwidth from 0");
    }
    std::unique_ptr<Placement> made(new Placement(std::move(tiers), settings));
    if (made->has_room_at_all()) return Made(std::move(made));
    return Status(Code::kInvalid, std::string("cannot place chunks by ") +
                                      name_of(settings.policy) +
                                      ": no local tier that it uses has room for one chunk; give "
                                      "a tier more capacity or choose another policy");
  });
}

bool Placement::has_room_at_all() const {
  const MutexLock lock(mutex_);
  return first_with_room().has_value();
}

bool Placement::may_use(size_t tier) const {
  switch (policy_) {
    case PlacementPolicy::kCacheOnly:
      return tier == 0;
    case PlacementPolicy::kSsdOnly:
      return tier != 0 || !any_local();
    case PlacementPolicy::kHybridNaive:
    case PlacementPolicy::kHybridOpt:
      break;
  }
  return true;
}

// Returns whether a tier after the first works, or there never was one.
bool Placement::any_local() const {
  return tiers_.size() < 2 || std::any_of(tiers_.begin() + 1, tiers_.end(),
                                          [](const Tier& tier) { return !tier.suspended; });
}

std::optional<size_t> Placement::first_with_room() const {
  for (size_t tier = 0; tier < tiers_.size(); ++tier) {
    if (may_use(tier) && tiers_[tier].has_room()) return tier;
  }
  return std::nullopt;
}

// Returns the predicted bytes per second of one more writer.
double Placement::rate_of_next(const Tier& tier) {
  const auto writers =
      static_cast<uint32_t>(std::min<uint64_t>(tier.now.writing + 1, kMostModelWriters));
  return tier.local.model.of_one(writers);
}

// Algorithm 2, lines 6 to 13.
std::optional<size_t> Placement::fastest_above(double bandwidth) const {
  double most = bandwidth;
  std::optional<size_t> chosen;
  for (size_t tier = 0; tier < tiers_.size(); ++tier) {
    const Tier& candidate = tiers_[tier];
    if (!candidate.has_room()) continue;
    const double predicted = rate_of_next(candidate);
    if (predicted > most) {
      most = predicted;
      chosen = tier;
    }
  }
  return chosen;
}

std::optional<size_t> Placement::choose() const {
  if (policy_ != PlacementPolicy::kHybridOpt) return first_with_room();
  if (auto tier = fastest_above(average_.bytes_per_second())) return tier;
  // The paper assumes a local device that is faster than the external store, so that no producer
  // waits for ever. Without such a device, waiting ends as long as there is a chunk whose flush can
  // end. If there is no chunk at all, the fastest device is taken.
  return anything_cached() ? std::nullopt : fastest_above(0);
}

bool Placement::anything_cached() const {
  return std::any_of(tiers_.begin(), tiers_.end(),
                     [](const Tier& tier) { return tier.now.cached() > 0; });
}

// Algorithm 2: the head of the queue is considered until it gets a tier (lines 5 to 20), and only
// then the next producer. Lines 17 and 18 claim the place.
Placement::Grants Placement::serve() {
  Grants grants;
  while (!queue_.empty()) {
    const std::optional<size_t> tier = choose();
    if (!tier) break;
    grants.push_back({queue_.front(), *tier});
    queue_.pop_front();
    ++tiers_[*tier].now.writing;
  }
  return grants;
}

std::optional<size_t> Placement::request(uint64_t producer) {
  const MutexLock lock(mutex_);
  if (std::find(queue_.begin(), queue_.end(), producer) != queue_.end()) return std::nullopt;
  queue_.push_back(producer);
  // Earlier producers wait for a flush to finish (algorithm 2, line 15), and this one waits with
  // them.
  if (queue_.size() > 1) return std::nullopt;
  const Grants grants = serve();
  return grants.empty() ? std::nullopt : std::optional(grants.front().tier);
}

Status Placement::refuse(size_t tier, const char* what) const {
  const std::string on = tier < tiers_.size() ? tiers_[tier].local.name : std::to_string(tier);
  return {Code::kInvalid, std::string("cannot ") + what + " tier " + on + ": it has no such chunk"};
}

Status Placement::written(size_t tier) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size() || tiers_[tier].now.writing == 0) {
    return refuse(tier, "count a chunk as written to");
  }
  --tiers_[tier].now.writing;  // algorithm 1, line 9
  ++tiers_[tier].now.waiting;
  return {};
}

Status Placement::flush_begun(size_t tier) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size() || tiers_[tier].now.waiting == 0) {
    return refuse(tier, "begin a flush from");
  }
  --tiers_[tier].now.waiting;
  ++tiers_[tier].now.flushing;
  return {};
}

Result<Placement::Grants> Placement::flush_ended(size_t tier, uint64_t bytes, double seconds) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size() || tiers_[tier].now.flushing == 0) {
    return refuse(tier, "end a flush from");
  }
  --tiers_[tier].now.flushing;                  // algorithm 3, line 3
  if (bytes > 0) average_.add(bytes, seconds);  // line 4
  return serve();
}

Placement::Grants Placement::flushes_so_far(uint64_t bytes, double seconds) {
  const MutexLock lock(mutex_);
  average_.so_far(bytes, seconds);
  return serve();
}

Result<Placement::Grants> Placement::flush_failed(size_t tier, double seconds) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size() || tiers_[tier].now.flushing == 0) {
    return refuse(tier, "end a failed flush from");
  }
  --tiers_[tier].now.flushing;
  average_.add(0, seconds);
  return serve();
}

Result<Placement::Grants> Placement::abandoned(size_t tier) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size() || tiers_[tier].now.writing == 0) {
    return refuse(tier, "give up a chunk of");
  }
  --tiers_[tier].now.writing;
  return serve();
}

std::optional<size_t> Placement::reserve_behind_first() {
  const MutexLock lock(mutex_);
  if (!queue_.empty()) return std::nullopt;
  double most = 0;
  std::optional<size_t> chosen;
  for (size_t tier = 1; tier < tiers_.size(); ++tier) {
    const Tier& candidate = tiers_[tier];
    if (!may_use(tier) || !candidate.has_room()) continue;
    const double predicted = rate_of_next(candidate);
    if (predicted <= most) continue;
    most = predicted;
    chosen = tier;
  }
  if (chosen) ++tiers_[*chosen].now.writing;
  return chosen;
}

bool Placement::cancel(uint64_t producer) {
  const MutexLock lock(mutex_);
  return std::erase(queue_, producer) > 0;
}

Status Placement::adopt(size_t tier) {
  const MutexLock lock(mutex_);
  if (tier >= tiers_.size()) return refuse(tier, "take over a chunk of");
  ++tiers_[tier].now.waiting;
  return {};
}

Result<Placement::Grants> Placement::suspend(size_t tier) {
  return set_suspended(tier, true);
}

Result<Placement::Grants> Placement::resume(size_t tier) {
  return set_suspended(tier, false);
}

// The first is memory, which does not fail.
Result<Placement::Grants> Placement::set_suspended(size_t tier, bool suspended) {
  const MutexLock lock(mutex_);
  if (tier == 0 || tier >= tiers_.size()) {
    return Status(Code::kInvalid, "cannot suspend tier " + std::to_string(tier));
  }
  tiers_[tier].suspended = suspended;
  return serve();
}

TierCounters Placement::counters(size_t tier) const {
  const MutexLock lock(mutex_);
  return tier < tiers_.size() ? tiers_[tier].now : TierCounters{};
}

double Placement::flush_bandwidth() const {
  const MutexLock lock(mutex_);
  return average_.bytes_per_second();
}

bool Placement::has_flushed() const {
  const MutexLock lock(mutex_);
  return average_.is_measured();
}

std::optional<double> Placement::ended_flush_bandwidth() const {
  const MutexLock lock(mutex_);
  return average_.of_ended();
}

size_t Placement::waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

}  // namespace gpusnap
