#include "tiers/placement/placement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

namespace gpusnap {
namespace {

using Grants = Placement::Grants;
using Policy = PlacementPolicy;

// One whose writers share `total` bytes a second evenly.
LocalTier tier(const char* name, uint64_t capacity, double total) {
  const std::vector<ThroughputSample> flat = {{1, total}};
  return {name, capacity, ThroughputModel::fit(flat).value()};
}

std::unique_ptr<Placement> place(Policy policy, std::vector<LocalTier> tiers, double flushes = 0) {
  Placement::Settings settings;
  settings.policy = policy;
  settings.first_flush_bandwidth = flushes;
  settings.flush_window = 4;
  auto made = Placement::make(std::move(tiers), settings);
  return std::move(made.value());
}

std::vector<LocalTier> cache_and_ssd() {
  return {tier("cache", 2, 1000), tier("ssd", 4, 100)};
}

// Requests for producers 0, 1, ...: the tiers, or -1 for those who wait.
std::vector<int> request_all(Placement& placement, uint64_t producers) {
  std::vector<int> tiers;
  for (uint64_t producer = 0; producer < producers; ++producer) {
    const auto given = placement.request(producer);
    tiers.push_back(given ? static_cast<int>(*given) : -1);
  }
  return tiers;
}

// A chunk that was given out goes all its way.
Grants finish(Placement& placement, size_t tier, uint64_t bytes = 0, double seconds = 0) {
  EXPECT_TRUE(placement.written(tier).ok());
  EXPECT_TRUE(placement.flush_begun(tier).ok());
  return placement.flush_ended(tier, bytes, seconds).value();
}

TEST(PlacementTest, CacheOnlyWaitsForTheCache) {
  const auto placement = place(Policy::kCacheOnly, cache_and_ssd());
  EXPECT_EQ(request_all(*placement, 4), std::vector<int>({0, 0, -1, -1}));
  EXPECT_EQ(finish(*placement, 0), Grants({{2, 0}}));
  EXPECT_EQ(placement->counters(1), TierCounters{});
}

TEST(PlacementTest, SsdOnlyLeavesTheCacheAlone) {
  auto tiers = cache_and_ssd();
  tiers.push_back(tier("disk", 1, 10));
  const auto placement = place(Policy::kSsdOnly, std::move(tiers));
  EXPECT_EQ(request_all(*placement, 6), std::vector<int>({1, 1, 1, 1, 2, -1}));
  EXPECT_EQ(finish(*placement, 2), Grants({{5, 2}}));
}

TEST(PlacementTest, HybridNaiveTakesTheFirstWithRoom) {
  const auto placement = place(Policy::kHybridNaive, cache_and_ssd(), 1e9);
  EXPECT_EQ(request_all(*placement, 7), std::vector<int>({0, 0, 1, 1, 1, 1, -1}));
  EXPECT_EQ(finish(*placement, 0), Grants({{6, 0}}));
}

// Algorithm 2, lines 6 to 13: 1000/1, 1000/2; then the SSD at 100/1, 100/2, 100/3 against 40.
TEST(PlacementTest, HybridOptTakesTheFastestThatBeatsFlushes) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 40);
  EXPECT_EQ(request_all(*placement, 6), std::vector<int>({0, 0, 1, 1, -1, -1}));
  EXPECT_EQ(placement->waiting(), 2U);
  // A write that ends does not wake anybody, a flush does (line 15); then two write to the SSD.
  EXPECT_TRUE(placement->written(1).ok());
  EXPECT_EQ(placement->waiting(), 2U);
  EXPECT_TRUE(placement->flush_begun(1).ok());
  EXPECT_EQ(placement->flush_ended(1, 0, 0).value(), Grants({{4, 1}}));
  EXPECT_EQ(finish(*placement, 0), Grants({{5, 0}}));
}

TEST(PlacementTest, WhatDoesNotPassThroughMemoryGoesToTheFastestTierBehindIt) {
  auto tiers = cache_and_ssd();
  tiers.push_back(tier("disk", 1, 60));
  const auto placement = place(Policy::kHybridOpt, tiers, 1e6);
  EXPECT_EQ(placement->reserve_behind_first(), std::optional<size_t>(1));  // 100 alone
  EXPECT_EQ(placement->reserve_behind_first(), std::optional<size_t>(2));  // 60, not 50
  EXPECT_EQ(placement->reserve_behind_first(), std::optional<size_t>(1));
  EXPECT_EQ(placement->counters(1).writing, 2U);
  (void)placement->suspend(1);
  EXPECT_EQ(placement->reserve_behind_first(), std::nullopt) << "the disk is full";
  const auto cache_only = place(Policy::kCacheOnly, cache_and_ssd());
  EXPECT_EQ(cache_only->reserve_behind_first(), std::nullopt);
}

TEST(PlacementTest, WhoWaitsComesBeforeWhatDoesNotPassThroughMemory) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 1e6);
  EXPECT_EQ(request_all(*placement, 2), std::vector<int>({0, -1}));
  EXPECT_EQ(placement->reserve_behind_first(), std::nullopt) << "flushes are faster than the SSD";
  EXPECT_TRUE(placement->cancel(1));
  EXPECT_EQ(placement->reserve_behind_first(), std::optional<size_t>(1));
}

TEST(PlacementTest, HybridOptPrefersAnIdleTierToABusyOne) {
  const auto placement =
      place(Policy::kHybridOpt, {tier("a", 9, 300), tier("b", 9, 200), tier("c", 9, 100)});
  // 300; 200 against 150; 150; 100 against 100 and 100: the first; 100; 100.
  EXPECT_EQ(request_all(*placement, 6), std::vector<int>({0, 1, 0, 0, 1, 2}));
}

TEST(PlacementTest, HybridOptFollowsTheStore) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 200);
  EXPECT_EQ(request_all(*placement, 4), std::vector<int>({0, 0, -1, -1}));
  EXPECT_EQ(placement->flush_bandwidth(), 200);
  // The store turns out to be slow: 64 bytes a second. One takes the cache, the other the SSD.
  EXPECT_EQ(finish(*placement, 0, 640, 10), Grants({{2, 0}, {3, 1}}));
  EXPECT_EQ(placement->flush_bandwidth(), 64);
  EXPECT_EQ(placement->request(4), std::nullopt);  // 100/2 is slower than 64
}

// Nothing has ended yet, and the store turns out no faster than 640 bytes in 10 seconds.
TEST(PlacementTest, FlushesUnderWayShowASlowStore) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 200);
  EXPECT_EQ(request_all(*placement, 5), std::vector<int>({0, 0, -1, -1, -1}));
  EXPECT_EQ(placement->flushes_so_far(640, 1), Grants());  // it may still be as fast as it is known
  EXPECT_EQ(placement->flush_bandwidth(), 200);
  EXPECT_EQ(placement->flushes_so_far(640, 10), Grants({{2, 1}}));  // 100/2 is slower than 64
  EXPECT_EQ(placement->flush_bandwidth(), 64);
  EXPECT_EQ(placement->flushes_so_far(640, 16), Grants({{3, 1}}));
  EXPECT_EQ(placement->flush_bandwidth(), 40);
}

TEST(PlacementTest, FlushesUnderWayCountWithThoseThatEnded) {
  const auto placement = place(Policy::kCacheOnly, {tier("cache", 100, 1000)}, 7);
  request_all(*placement, 30);
  finish(*placement, 0, 300, 1);
  (void)placement->flushes_so_far(100, 3);
  EXPECT_EQ(placement->flush_bandwidth(), 100);
  (void)placement->flushes_so_far(4000, 1);  // they will not have been that fast
  EXPECT_EQ(placement->flush_bandwidth(), 300);
  (void)placement->flushes_so_far(100, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(placement->flush_bandwidth(), 300);
  (void)placement->flushes_so_far(0, 2);
  EXPECT_EQ(placement->flush_bandwidth(), 100);
  (void)placement->flushes_so_far(0, 0);  // none is under way any more
  EXPECT_EQ(placement->flush_bandwidth(), 300);
}

TEST(PlacementTest, TheAverageMovesOverItsWindow) {
  const auto placement = place(Policy::kCacheOnly, {tier("cache", 100, 1000)}, 7);
  request_all(*placement, 30);
  finish(*placement, 0, 100, 0);  // says nothing
  finish(*placement, 0, 0, 5);
  finish(*placement, 0, 100, -1);
  finish(*placement, 0, 100, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(placement->flush_bandwidth(), 7);
  finish(*placement, 0, 100, 1);
  EXPECT_EQ(placement->flush_bandwidth(), 100);
  finish(*placement, 0, 500, 2);
  EXPECT_EQ(placement->flush_bandwidth(), 200);
  finish(*placement, 0, 400, 1);
  finish(*placement, 0, 400, 1);
  EXPECT_EQ(placement->flush_bandwidth(), 280);
  finish(*placement, 0, 200, 1);  // the first one leaves
  EXPECT_EQ(placement->flush_bandwidth(), 300);
}

// The paper assumes a device that is faster than the store; waiting must end without one too.
TEST(PlacementTest, NobodyWaitsForEverWhereTheStoreIsTheFastest) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 1e9);
  EXPECT_EQ(request_all(*placement, 3), std::vector<int>({0, -1, -1}));
  EXPECT_EQ(finish(*placement, 0, 1'000'000'000, 1), Grants({{1, 0}}));
  EXPECT_EQ(placement->abandoned(0).value(), Grants({{2, 0}}));
}

TEST(PlacementTest, AStoreThatIsGoneComesToCountAsSlow) {
  const auto placement = place(Policy::kHybridOpt, cache_and_ssd(), 500);
  EXPECT_EQ(request_all(*placement, 7), std::vector<int>({0, -1, -1, -1, -1, -1, -1}));
  EXPECT_TRUE(placement->written(0).ok());
  EXPECT_TRUE(placement->flush_begun(0).ok());
  // Everything with room is now faster than nothing.
  EXPECT_EQ(placement->flush_failed(0, 30).value(),
            Grants({{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}));
  EXPECT_EQ(placement->counters(0), (TierCounters{2, 0, 0}));
  EXPECT_EQ(placement->flush_bandwidth(), 0);
}

TEST(PlacementTest, AProducerThatWaitsKeepsItsPlace) {
  const auto placement = place(Policy::kCacheOnly, {tier("cache", 1, 1000)});
  EXPECT_EQ(request_all(*placement, 4), std::vector<int>({0, -1, -1, -1}));
  EXPECT_EQ(placement->request(2), std::nullopt);
  EXPECT_EQ(placement->request(1), std::nullopt);
  EXPECT_EQ(placement->waiting(), 3U);
  EXPECT_EQ(finish(*placement, 0), Grants({{1, 0}}));
  EXPECT_EQ(placement->request(1), std::nullopt);  // for its next chunk: behind the others
  EXPECT_EQ(finish(*placement, 0), Grants({{2, 0}}));
  EXPECT_TRUE(placement->cancel(3));
  EXPECT_FALSE(placement->cancel(3));
  EXPECT_EQ(finish(*placement, 0), Grants({{1, 0}}));
  EXPECT_EQ(finish(*placement, 0), Grants());
}

TEST(PlacementTest, AnAbandonedPlaceIsGivenToTheNext) {
  const auto placement = place(Policy::kCacheOnly, {tier("cache", 1, 1000)});
  EXPECT_EQ(request_all(*placement, 2), std::vector<int>({0, -1}));
  EXPECT_EQ(placement->abandoned(0).value(), Grants({{1, 0}}));
  EXPECT_EQ(placement->abandoned(0).value(), Grants());
  EXPECT_EQ(placement->counters(0), TierCounters{});
}

TEST(PlacementTest, WhatIsThereFromBeforeTakesItsRoom) {
  const auto placement = place(Policy::kHybridNaive, cache_and_ssd());
  for (const size_t tier : {0, 0, 1, 1, 1}) EXPECT_TRUE(placement->adopt(tier).ok());
  EXPECT_EQ(placement->counters(1), (TierCounters{0, 3, 0}));
  EXPECT_EQ(request_all(*placement, 2), std::vector<int>({1, -1}));
  // Found later than that: there is one more than there is room.
  EXPECT_TRUE(placement->adopt(1).ok());
  EXPECT_TRUE(placement->flush_begun(1).ok());
  EXPECT_EQ(placement->flush_ended(1, 100, 1).value(), Grants());
  EXPECT_TRUE(placement->flush_begun(0).ok());
  EXPECT_EQ(placement->flush_ended(0, 100, 1).value(), Grants({{1, 0}}));
}

TEST(PlacementTest, CallsThatCannotBeRightChangeNothing) {
  const auto placement = place(Policy::kHybridNaive, cache_and_ssd());
  const auto all_refused = [&](size_t tier) {
    return placement->written(tier).code() == Code::kInvalid &&
           placement->flush_begun(tier).code() == Code::kInvalid &&
           placement->flush_ended(tier, 1, 1).status().code() == Code::kInvalid &&
           placement->flush_failed(tier, 1).status().code() == Code::kInvalid &&
           placement->abandoned(tier).status().code() == Code::kInvalid;
  };
  for (const size_t tier : {size_t{0}, size_t{1}, size_t{2}, SIZE_MAX}) {
    EXPECT_TRUE(all_refused(tier));
    EXPECT_EQ(placement->counters(tier), TierCounters{});
  }
  EXPECT_EQ(placement->flush_bandwidth(), 0);
  EXPECT_EQ(placement->adopt(2).code(), Code::kInvalid);
  EXPECT_EQ(placement->written(1).message(),
            "cannot count a chunk as written to tier ssd: it has no such chunk");
}

TEST(PlacementTest, RefusesPoliciesWithoutATier) {
  const auto made = [](Policy policy, std::vector<LocalTier> tiers) {
    Placement::Settings settings;
    settings.policy = policy;
    return Placement::make(std::move(tiers), settings);
  };
  for (const Policy policy :
       {Policy::kCacheOnly, Policy::kSsdOnly, Policy::kHybridNaive, Policy::kHybridOpt}) {
    EXPECT_EQ(made(policy, {}).status().code(), Code::kInvalid);
    EXPECT_EQ(made(policy, {tier("cache", 0, 1), tier("ssd", 0, 1)}).status().code(),
              Code::kInvalid);
    EXPECT_TRUE(made(policy, cache_and_ssd()).ok());
  }
  EXPECT_EQ(made(Policy::kSsdOnly, {tier("cache", 5, 1)}).status().message(),
            "cannot place chunks by ssd-only: no local tier that it uses has room for one chunk; "
            "give a tier more capacity or choose another policy");
  EXPECT_FALSE(made(Policy::kCacheOnly, {tier("cache", 0, 1), tier("ssd", 4, 1)}).ok());
  EXPECT_TRUE(made(Policy::kHybridOpt, {tier("cache", 0, 1), tier("ssd", 4, 1)}).ok());

  Placement::Settings settings;
  settings.flush_window = 0;
  EXPECT_FALSE(Placement::make(cache_and_ssd(), settings).ok());
  settings.flush_window = 1;
  for (const double bandwidth : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    settings.first_flush_bandwidth = bandwidth;
    EXPECT_FALSE(Placement::make(cache_and_ssd(), settings).ok());
  }
}

// For the sanitizers, and for sums that must come out whatever the order.
TEST(PlacementTest, ThreadsMayShareIt) {
  const auto placement = place(Policy::kHybridNaive, {tier("cache", 3, 1000), tier("ssd", 5, 100)});
  std::atomic<uint64_t> done = 0;
  const auto work = [&](uint64_t producer) {
    for (int i = 0; i < 200; ++i) {
      const auto given = placement->request(producer);
      if (!given) continue;  // there is room for all
      EXPECT_TRUE(placement->written(*given).ok());
      EXPECT_TRUE(placement->flush_begun(*given).ok());
      EXPECT_TRUE(placement->flush_ended(*given, 100, 1).ok());
      ++done;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t producer = 0; producer < 4; ++producer) threads.emplace_back(work, producer);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 800U);
  EXPECT_EQ(placement->counters(0), TierCounters{});
  EXPECT_EQ(placement->counters(1), TierCounters{});
  EXPECT_EQ(placement->flush_bandwidth(), 100);
}

TEST(PlacementSuspended, TiersGetNothing) {
  const auto placement = place(Policy::kHybridNaive, cache_and_ssd());
  EXPECT_TRUE(placement->suspend(1).ok());
  EXPECT_EQ(request_all(*placement, 4), (std::vector<int>{0, 0, -1, -1}));
  EXPECT_EQ(placement->resume(1).value(), (Grants{{2, 1}, {3, 1}}));
  EXPECT_FALSE(placement->suspend(0).ok());
  EXPECT_FALSE(placement->suspend(2).ok());
}

TEST(PlacementSuspended, WhoeverMayUseNoOtherGoesToTheFirst) {
  const auto placement = place(Policy::kSsdOnly, {tier("cache", 2, 1000), tier("ssd", 1, 100)});
  EXPECT_EQ(request_all(*placement, 3), (std::vector<int>{1, -1, -1}));
  EXPECT_EQ(placement->suspend(1).value(), (Grants{{1, 0}, {2, 0}}));
  EXPECT_EQ(placement->resume(1).value(), Grants{});
  EXPECT_EQ(placement->request(3), std::nullopt);
}

}  // namespace
}  // namespace gpusnap
