// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/engine.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

namespace gpusnap::shots {

using history::kApplication;
using history::Outcome;

bool Occupancy::place(const Transfer& transfer) {
  for (const Version each : transfer.evicted) {
    const auto room = rooms_.find(each);
    if (room == rooms_.end()) return false;
    used_ -= room->second.size;
    ends_.erase(room->second.offset);
    rooms_.erase(room);
  }
  const uint64_t begin = transfer.to_offset;
  const uint64_t size = (transfer.bytes + options_.alignment - 1) & ~(options_.alignment - 1);
  const auto next = ends_.lower_bound(begin);
  const bool is_free = (next == ends_.end() || next->first >= begin + size) &&
                       (next == ends_.begin() || std::prev(next)->second <= begin);
  ends_[begin] = begin + size;
  rooms_[transfer.version] = {begin, size};
  used_ += size;
  peak_ = std::max(peak_, used_);
  return is_free && begin + size <= options_.capacity;
}

Engine::Engine(Clock& clock, Node& node, unsigned gpu, Options options)
    : clock_(clock),
      node_(node),
      gpu_(gpu),
      options_(std::move(options)),
      planner_(options_.planner) {
  for (const auto& each : options_.planner.caches) occupancies_.emplace_back(each);
}

void Engine::write(Version version, uint64_t bytes, Done done) {
  done_ = std::move(done);
  planner_.computed(clock_.now_ns() - answered_ns_);
  if (!planner_.write(version, bytes)) fault_ = "the planner refuses a new version";
  plan();
}

void Engine::restore(Version version, Done done) {
  done_ = std::move(done);
  const int64_t since_ns = last_restore_ns_ < 0 ? 0 : clock_.now_ns() - last_restore_ns_;
  last_restore_ns_ = clock_.now_ns();
  awaited_ = version;
  planner_.computed(clock_.now_ns() - answered_ns_);
  if (!planner_.restore(version, since_ns)) fault_ = "the planner does not know a version";
  plan();
}

void Engine::when_flushed(Clock::Event then) {
  flushed_ = std::move(then);
  answer();
}

void Engine::hint(Version version) {
  planner_.hint(version);
  plan();
}

void Engine::start_prefetching() {
  planner_.start_prefetching();
  plan();
}

bool Engine::is_on_device(Version version) const {
  using enum history::CopyState;
  if (medium(0) != Medium::kDevice) return false;
  const history::CopyState state = planner_.state(version, 0);
  return state == kWriteComplete || state == kFlushed || state == kReadComplete;
}

void Engine::plan() {
  for (const Transfer& transfer : planner_.plan()) begin(transfer);
  answer();
}

void Engine::begin(const Transfer& transfer) {
  if (is_cache(transfer.to) && !occupancies_[static_cast<size_t>(transfer.to)].place(transfer)) {
    fault_ = "the planner gives away room that is taken";
  }
  const int64_t begun_ns = clock_.now_ns();
  const auto move = [this, transfer, begun_ns] {
    node_.move(gpu_, medium(transfer.from), medium(transfer.to), transfer.bytes,
               [this, transfer, begun_ns] { finish(transfer, begun_ns); });
  };
  if (const int64_t pinned_ns = pinned_at_ns(transfer); pinned_ns > begun_ns) {
    clock_.at(pinned_ns, move);
  } else {
    move();
  }
}

void Engine::finish(const Transfer& transfer, int64_t begun_ns) {
  planner_.finished(transfer.id, Outcome::kDone, clock_.now_ns() - begun_ns);
  if (transfer.to < transfer.from) {
    Medium& slowest = sources_.try_emplace(transfer.version, medium(transfer.from)).first->second;
    slowest = std::max(slowest, medium(transfer.from));
  }
  note_forecasts(transfer);
  plan();
}

// Tells the application what it waits for.
void Engine::answer() {
  if (done_ && planner_.outcome().has_value()) {
    answered_ns_ = clock_.now_ns();
    std::exchange(done_, {})(*planner_.outcome());
  } else if (flushed_ && planner_.is_flushed()) {
    answered_ns_ = clock_.now_ns();
    std::exchange(flushed_, {})();
  }
}

// A process pins its host cache from the beginning of the cache to its end.
int64_t Engine::pinned_at_ns(const Transfer& transfer) const {
  if (options_.pinning == 0 || medium(transfer.to) != Medium::kHost) return 0;
  const auto end = static_cast<double>(transfer.to_offset + transfer.bytes);
  return static_cast<int64_t>(std::ceil(end / options_.pinning * 1e9));
}

Medium Engine::medium(int tier) const {
  return tier == kApplication ? Medium::kApplication : options_.tiers[static_cast<size_t>(tier)];
}

void Engine::note_forecasts(const Transfer& transfer) {
  const auto [version, from, to] = std::tuple(transfer.version, transfer.from, transfer.to);
  if (to > from) {
    if (from != kApplication) compare(flushes_, version, from);
    if (is_cache(to)) forecast(flushes_, version, to);
    return;
  }
  compare(restores_, version, from);
  // A restore that the application waits for already is not predicted.
  if (to != kApplication && awaited_ != version) forecast(restores_, version, to);
}

void Engine::forecast(Forecasts& forecasts, Version version, int tier) {
  forecasts.open[{version, tier}] = {clock_.now_ns(), planner_.evictable_in_ns(version, tier)};
}

void Engine::compare(Forecasts& forecasts, Version version, int tier) {
  const auto found = forecasts.open.find({version, tier});
  if (found == forecasts.open.end()) return;
  const auto [made_ns, expected_ns] = found->second;
  const auto actual_ns = static_cast<double>(clock_.now_ns() - made_ns);
  forecasts.open.erase(found);
  if (actual_ns <= 0) return;
  forecasts.errors.push_back(std::abs(static_cast<double>(expected_ns) - actual_ns) / actual_ns);
}

}  // namespace gpusnap::shots
