// Random histories: whatever producers, writes and flushes do in whatever order, among them calls
// that cannot be right, the counters are what is there, and producers are served in their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>

#include "tiers/placement/placement.h"

namespace gpusnap {
namespace {

class History {
 public:
  explicit History(uint32_t seed) : random_(seed), policy_(PlacementPolicy(seed % 4)) {
    const size_t tiers = 2 + draw(3);
    std::vector<LocalTier> local;
    for (size_t i = 0; i < tiers; ++i) {
      std::vector<ThroughputSample> samples;
      for (uint32_t n = 0; n < 6; ++n) samples.push_back({1 + 4 * n, 1.0 + double(draw(1000))});
      capacity_.push_back(1 + draw(6));
      local.push_back(
          {"t" + std::to_string(i), capacity_.back(), ThroughputModel::fit(samples).value()});
    }
    expected_.resize(tiers);
    Placement::Settings settings;
    settings.policy = policy_;
    settings.first_flush_bandwidth = double(draw(300));
    settings.flush_window = 1 + draw(8);
    auto made = Placement::make(std::move(local), settings);
    placement_ = std::move(made.value());
  }

  void step() {
    const size_t tier = draw(expected_.size());
    TierCounters& counters = expected_[tier];
    switch (draw(9)) {
      case 0:
      case 1:
      case 2:
        request(draw(30));
        break;
      case 3:
        if (expect(placement_->written(tier), counters.writing)) ++counters.waiting;
        break;
      case 4:
      case 5:
        if (expect(placement_->flush_begun(tier), counters.waiting)) ++counters.flushing;
        break;
      case 6:
        serve(placement_->flush_ended(tier, draw(1000), double(draw(10))), counters.flushing);
        break;
      case 7:
        serve(placement_->flush_failed(tier, double(draw(10))), counters.flushing);
        break;
      default:
        if (draw(2) == 0) {
          serve(placement_->abandoned(tier), counters.writing);
        } else {
          cancel(draw(30));
        }
    }
    check();
  }

  // No more requests: what is there goes its way, and all that wait are served.
  void drain() {
    for (int i = 0; i < 10'000 && !idle(); ++i) {
      const size_t tier = static_cast<size_t>(i) % expected_.size();
      TierCounters& counters = expected_[tier];
      if (counters.writing > 0 && expect(placement_->written(tier), counters.writing)) {
        ++counters.waiting;
      }
      if (counters.waiting > 0 && expect(placement_->flush_begun(tier), counters.waiting)) {
        ++counters.flushing;
      }
      if (counters.flushing > 0) {
        serve(placement_->flush_ended(tier, 100, 1), counters.flushing);
      }
      check();
    }
    EXPECT_TRUE(idle());
  }

 private:
  size_t draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  bool idle() const {
    for (const TierCounters& counters : expected_) {
      if (counters.cached() > 0) return false;
    }
    return queue_.empty();
  }

  bool waits(uint64_t producer) const {
    return std::find(queue_.begin(), queue_.end(), producer) != queue_.end();
  }

  void request(uint64_t producer) {
    const bool first = queue_.empty();
    if (!waits(producer)) queue_.push_back(producer);
    const auto given = placement_->request(producer);
    if (!given) return;
    EXPECT_TRUE(first);  // nobody is overtaken
    take({{producer, *given}});
  }

  void cancel(uint64_t producer) {
    EXPECT_EQ(placement_->cancel(producer), waits(producer));
    std::erase(queue_, producer);
  }

  // Whether the call was right, that is whether there was one to take from `count`.
  static bool expect(const Status& status, uint64_t& count) {
    EXPECT_EQ(status.ok(), count > 0);
    if (count == 0) return false;
    --count;
    return true;
  }

  void serve(const Result<Placement::Grants>& grants, uint64_t& count) {
    if (expect(grants.status(), count)) take(grants.value());
  }

  void take(const Placement::Grants& grants) {
    for (const Placement::Grant& grant : grants) {
      ASSERT_FALSE(queue_.empty());
      EXPECT_EQ(grant.producer, queue_.front());
      queue_.pop_front();
      ++expected_.at(grant.tier).writing;
      EXPECT_TRUE(policy_ != PlacementPolicy::kCacheOnly || grant.tier == 0);
      EXPECT_TRUE(policy_ != PlacementPolicy::kSsdOnly || grant.tier != 0);
    }
  }

  void check() {
    bool anything = false;
    for (size_t tier = 0; tier < expected_.size(); ++tier) {
      ASSERT_EQ(placement_->counters(tier), expected_[tier]);
      ASSERT_LE(expected_[tier].cached(), capacity_[tier]);
      anything |= expected_[tier].cached() > 0;
    }
    ASSERT_EQ(placement_->waiting(), queue_.size());
    ASSERT_TRUE(anything || queue_.empty()) << "somebody waits for nothing";
    ASSERT_GE(placement_->flush_bandwidth(), 0);
  }

  std::mt19937 random_;
  PlacementPolicy policy_;
  std::vector<uint64_t> capacity_;
  std::vector<TierCounters> expected_;
  std::deque<uint64_t> queue_;
  std::unique_ptr<Placement> placement_;
};

TEST(HistoriesTest, CountersHoldAndProducersAreServedInOrder) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    History history(seed);
    for (int i = 0; i < 150; ++i) history.step();
    history.drain();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gpusnap
