#include "simulation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>

#include "tiers/placement/measure.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kSsdChunks = 1 << 20;
constexpr double kDone = 1e-3;  // bytes
constexpr double kNever = std::numeric_limits<double>::infinity();

ThroughputModel calibrated(const std::function<double(double)>& total, uint32_t producers) {
  std::vector<ThroughputSample> samples;
  for (const uint32_t writers : concurrency_levels(producers)) {
    samples.push_back({writers, total(writers)});
  }
  return ThroughputModel::fit(samples).value();
}

struct Transfer {
  double left = kChunkBytes;
  size_t tier = 0;
  uint64_t producer = 0;
  double begun_s = 0;  // of a flush: when the chunk was written
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, PlacementPolicy policy)
      : scenario_(scenario), left_(scenario.producers, scenario.chunks_each) {
    Placement::Settings settings;
    settings.policy = policy;
    if (scenario.knows_the_store) {
      settings.first_flush_bandwidth =
          scenario.store[0].bytes_per_second / double(std::max<uint64_t>(scenario.cache_chunks, 1));
    } else {
      settings.first_flush_bandwidth = scenario.cache(scenario.producers) / scenario.producers / 2;
    }
    auto made = Placement::make(
        {{"cache", scenario.cache_chunks, calibrated(scenario.cache, scenario.producers)},
         {"ssd", kSsdChunks, calibrated(scenario.ssd, scenario.producers)}},
        settings);
    placement_ = std::move(made.value());
  }

  Outcome run() {
    for (uint64_t producer = 0; producer < scenario_.producers; ++producer) request(producer);
    while (outcome_.wrong.empty()) {
      begin_flushes();
      if (writes_.empty() && flushes_.empty()) break;
      pass(time_to_next());
      end_writes();
      end_flushes();
      check();
    }
    const bool all = std::all_of(left_.begin(), left_.end(), [](uint64_t n) { return n == 0; });
    if (!queue_.empty() || !all) fail("a producer waits for ever");
    outcome_.complete_s = now_s_;
    return outcome_;
  }

 private:
  void fail(const std::string& what) {
    if (outcome_.wrong.empty()) outcome_.wrong = what;
  }

  void request(uint64_t producer) {
    if (left_[producer] == 0) return;
    --left_[producer];
    queue_.push_back(producer);
    if (const auto tier = placement_->request(producer)) take({{producer, *tier}});
  }

  void take(const Placement::Grants& grants) {
    for (const Placement::Grant& grant : grants) {
      if (queue_.empty() || queue_.front() != grant.producer) fail("not in the order of requests");
      queue_.pop_front();
      writes_.push_back({kChunkBytes, grant.tier, grant.producer, now_s_});
      if (grant.tier == 1) ++outcome_.ssd_chunks;
    }
  }

  void begin_flushes() {
    while (!written_.empty() && flushes_.size() < scenario_.flush_threads) {
      if (!placement_->flush_begun(written_.front().tier).ok()) fail("a flush could not begin");
      flushes_.push_back(written_.front());
      written_.pop_front();
    }
  }

  double write_speed(size_t tier) const {
    double users = 0;
    for (const Transfer& write : writes_) users += write.tier == tier ? 1 : 0;
    if (tier == 0) return scenario_.cache(users) / users;
    for (const Transfer& flush : flushes_) users += flush.tier == 1 ? scenario_.flush_weight : 0;
    return scenario_.ssd(users) / users;
  }

  double flush_speed() const {
    double total = 0;
    for (const StoreSpeed& speed : scenario_.store) {
      if (speed.from_s <= now_s_) total = speed.bytes_per_second;
    }
    return total / double(flushes_.size());
  }

  double time_to_next() const {
    double next = kNever;
    const double speeds[] = {write_speed(0), write_speed(1)};
    for (const Transfer& write : writes_) next = std::min(next, write.left / speeds[write.tier]);
    for (const Transfer& flush : flushes_) next = std::min(next, flush.left / flush_speed());
    for (const StoreSpeed& speed : scenario_.store) {
      if (speed.from_s > now_s_) next = std::min(next, speed.from_s - now_s_);
    }
    return next;
  }

  void pass(double seconds) {
    const double speeds[] = {write_speed(0), write_speed(1)};
    const double flushing = flush_speed();
    for (Transfer& write : writes_) write.left -= seconds * speeds[write.tier];
    for (Transfer& flush : flushes_) flush.left -= seconds * flushing;
    now_s_ += seconds;
  }

  static std::vector<Transfer> ended(std::vector<Transfer>& transfers) {
    const auto end = std::stable_partition(transfers.begin(), transfers.end(),
                                           [](const Transfer& one) { return one.left > kDone; });
    std::vector<Transfer> done(end, transfers.end());
    transfers.erase(end, transfers.end());
    return done;
  }

  void end_writes() {
    for (const Transfer& write : ended(writes_)) {
      if (!placement_->written(write.tier).ok()) fail("a write could not end");
      written_.push_back({kChunkBytes, write.tier, 0, now_s_});
      outcome_.local_s = now_s_;
      request(write.producer);
    }
  }

  // Of all that is written and not flushed.
  void tell_so_far() {
    double seconds = 0;
    for (const Transfer& write : written_) seconds += now_s_ - write.begun_s;
    for (const Transfer& flush : flushes_) seconds += now_s_ - flush.begun_s;
    const auto chunks = static_cast<double>(written_.size() + flushes_.size());
    take(placement_->flushes_so_far(static_cast<uint64_t>(chunks * kChunkBytes), seconds));
  }

  void end_flushes() {
    tell_so_far();
    for (const Transfer& flush : ended(flushes_)) {
      auto grants = placement_->flush_ended(flush.tier, static_cast<uint64_t>(kChunkBytes),
                                            now_s_ - flush.begun_s);
      if (!grants.ok()) return fail("a flush could not end");
      take(grants.value());
    }
  }

  void check() {
    TierCounters counted[2];
    for (const Transfer& write : writes_) ++counted[write.tier].writing;
    for (const Transfer& write : written_) ++counted[write.tier].waiting;
    for (const Transfer& flush : flushes_) ++counted[flush.tier].flushing;
    for (size_t tier = 0; tier < 2; ++tier) {
      if (placement_->counters(tier) != counted[tier]) fail("counters are not what is there");
    }
    if (counted[0].cached() > scenario_.cache_chunks) fail("more in the cache than fits");
    if (placement_->waiting() != queue_.size()) fail("the queue is not who waits");
  }

  const Scenario& scenario_;
  std::unique_ptr<Placement> placement_;
  std::vector<uint64_t> left_;  // by producer
  std::deque<uint64_t> queue_;
  std::vector<Transfer> writes_;
  std::deque<Transfer> written_;  // and no flush has begun of them
  std::vector<Transfer> flushes_;
  double now_s_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const Scenario& scenario, PlacementPolicy policy) {
  return Simulation(scenario, policy).run();
}

}  // namespace gpusnap::test
