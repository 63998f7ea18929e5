// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/node.h"

#include <algorithm>

namespace gpusnap::comparison {

Node::Node(const Scenario& scenario, const std::array<ThroughputModel, kTiers>& models)
    : scenario_(scenario),
      limit_(scenario.flushing),
      queue_(scenario.flushing.order),
      left_(scenario.writers) {
  Placement::Settings settings;
  settings.policy = scenario.policy;
  settings.first_flush_bandwidth = scenario.first_flush_bandwidth;
  auto made = Placement::make(
      {{"cache", scenario.cache_chunks, models[0]}, {"ssd", scenario.ssd_chunks, models[1]}},
      settings);
  placement_ = std::move(made.value());
  set_demands();
}

void Node::fail(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

void Node::begin_checkpoint() {
  begun_ += scenario_.chunks_of_node();
  placed_.fill(0);
  std::ranges::fill(left_, scenario_.chunks);
  for (uint64_t producer = 0; producer < left_.size(); ++producer) request(producer);
  begin_flushes();
  set_demands();
}

void Node::request(uint64_t producer) {
  if (left_[producer] == 0) return;
  --left_[producer];
  if (scenario_.is_synchronous) return flushes_[0].begin({producer, 0});
  requests_.push_back(producer);
  if (const auto tier = placement_->request(producer)) {
    take(Placement::Grants{{producer, *tier}});
  }
}

void Node::take(const Result<Placement::Grants>& grants) {
  if (!grants.ok()) return fail(grants.status().message());
  for (const Placement::Grant& grant : grants.value()) {
    if (requests_.empty() || requests_.front() != grant.producer) {
      return fail("a tier was given out of turn");
    }
    requests_.pop_front();
    ++placed_[grant.tier];
    place(grant.producer, grant.tier);
  }
}

void Node::place(uint64_t producer, size_t tier) {
  if (tier == 0) return writes_[0].begin({producer, 0});
  staged_.push_back(producer);
  begin_staged();
}

void Node::begin_staged() {
  const uint32_t slots = scenario_.staging_slots;
  while (!staged_.empty() && (slots == 0 || writes_[1].size() < slots)) {
    writes_[1].begin({staged_.front(), 0});
    staged_.pop_front();
  }
}

void Node::begin_flushes() {
  while (queue_.size() > 0 && flushes_[0].size() + flushes_[1].size() < limit_.now()) {
    const WrittenChunk chunk = queue_.take(flushes_[1].size(), limit_.now());
    if (!placement_->flush_begun(chunk.tier).ok()) return fail("a flush could not begin");
    const bool waits = scenario_.flushing.counts_waits;
    if (!waits) so_far_.begin(now_s_);
    flushes_[chunk.tier].begin({0, waits ? chunk.written_s : now_s_});
  }
}

// Each flush also reads its tier. A flush gets its share of that, of its node's way to the store,
// and of the store. The writers of a tier get the part of it that the flushes leave.
void Node::set_demands() {
  const Store& store = scenario_.machine.store;
  const double of_read[] = {1, scenario_.machine.read_weight};
  const Curve* curves[] = {&scenario_.machine.memory, &scenario_.machine.ssd};
  for (size_t tier = 0; tier < kTiers; ++tier) {
    const double users = writes_[tier].users() + of_read[tier] * flushes_[tier].users();
    device_shares_[tier] = users > 0 ? (*curves[tier])(users) / users : 0;
    demands_[tier].count = flushes_[tier].users();
    demands_[tier].cap = store.of_one_file() * store_factor_;
    if (of_read[tier] > 0 && users > 0) {
      demands_[tier].cap = std::min(demands_[tier].cap, device_shares_[tier] / of_read[tier]);
    }
  }
  const double files = demands_[0].count + demands_[1].count;
  const double level = water_level(demands_, store.of_files(files) * store_factor_);
  for (Demand& demand : demands_) demand.cap = std::min(demand.cap, level);
}

void Node::set_rates(double level) {
  const double of_read[] = {1, scenario_.machine.read_weight};
  for (size_t tier = 0; tier < kTiers; ++tier) {
    Lane& writes = writes_[tier];
    Lane& flushes = flushes_[tier];
    flushes.set_rate(std::min(demands_[tier].cap, level));
    const double users = writes.users() + of_read[tier] * flushes.users();
    const double total = device_shares_[tier] * users;
    const double read = of_read[tier] * flushes.users() * flushes.rate();
    writes.set_rate(writes.size() > 0 ? (total - read) / writes.users() : 0);
    if (read > total * (1 + 1e-9)) fail("a tier is read faster than it is");
  }
}

bool Node::has_rates_of(double level) const {
  for (size_t tier = 0; tier < kTiers; ++tier) {
    const Lane& flushes = flushes_[tier];
    if (flushes.size() > 0 && flushes.rate() != std::min(demands_[tier].cap, level)) return false;
  }
  return true;
}

void Node::set_store_factor(double factor) {
  store_factor_ = factor;
  set_demands();
}

double Node::seconds_to_next() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Lane& lane : writes_) next = std::min(next, lane.seconds_to_next());
  for (const Lane& lane : flushes_) next = std::min(next, lane.seconds_to_next());
  if (is_computed()) return next;
  const double speed = is_flushing() ? 1 - scenario_.slowdown : 1;
  return std::min(next, compute_left_s_ / speed);
}

void Node::advance(double now_s) {
  const double seconds = now_s - now_s_;
  if (seconds <= 0) return;
  now_s_ = now_s;
  if (!is_computed()) compute_left_s_ -= seconds * (is_flushing() ? 1 - scenario_.slowdown : 1);
  for (Lane& lane : writes_) lane.pass(seconds);
  for (Lane& lane : flushes_) lane.pass(seconds);
}

void Node::settle() {
  if (scenario_.is_synchronous) {
    end_synchronous();
  } else {
    end_writes();
    end_flushes();
    begin_flushes();
    check();
  }
  set_demands();
}

void Node::end_synchronous() {
  while (flushes_[0].has_ended()) {
    ++written_;
    ++flushed_;
    request(flushes_[0].take().producer);
  }
}

void Node::end_writes() {
  for (size_t tier = 0; tier < kTiers; ++tier) {
    while (writes_[tier].has_ended()) {
      const uint64_t producer = writes_[tier].take().producer;
      if (!placement_->written(tier).ok()) return fail("a write could not end");
      ++written_;
      queue_.add({tier, now_s_});
      if (scenario_.flushing.counts_waits) so_far_.begin(now_s_);
      begin_staged();
      request(producer);
    }
  }
}

void Node::tick() {
  if (scenario_.is_synchronous) return;
  take(placement_->flushes_so_far(static_cast<uint64_t>(so_far_.chunks * kChunkBytes),
                                  so_far_.seconds(now_s_)));
  set_demands();
}

void Node::end_flushes() {
  tick();
  for (size_t tier = 0; tier < kTiers; ++tier) {
    while (flushes_[tier].has_ended()) {
      const bool is_busy = queue_.size() > 0;
      const double from_s = flushes_[tier].take().counts_from_s;
      ++flushed_;
      so_far_.end(from_s);
      limit_.ended(now_s_, flushed_bytes(), is_busy);
      take(placement_->flush_ended(tier, static_cast<uint64_t>(kChunkBytes), now_s_ - from_s));
    }
  }
}

void Node::check() {
  for (size_t tier = 0; tier < kTiers; ++tier) {
    TierCounters there;
    there.writing = writes_[tier].size() + (tier == 1 ? staged_.size() : 0);
    there.waiting = queue_.of_tier(tier);
    there.flushing = flushes_[tier].size();
    if (placement_->counters(tier) != there) fail("Placement counts other chunks than there are");
    peaks_[tier] = std::max(peaks_[tier], there.cached());
  }
  if (peaks_[0] > scenario_.cache_chunks || peaks_[1] > scenario_.ssd_chunks) {
    fail("a tier holds more than it has room for");
  }
  if (placement_->waiting() != requests_.size()) fail("Placement has another queue");
}

double Node::written_bytes() const {
  return scenario_.is_synchronous ? flushed_bytes() : writes_[0].moved() + writes_[1].moved();
}

}  // namespace gpusnap::comparison
