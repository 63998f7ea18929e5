// SPDX-License-Identifier: Apache-2.0
//
// The simulation against what must hold of it in any machine, and against arithmetic in simple
// ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/comparison/configuration.h"
#include "tests/bench/comparison/flushing.h"
#include "tests/bench/comparison/scenario.h"
#include "tests/bench/comparison/share.h"

namespace gpusnap::comparison {
namespace {

constexpr double kMemory = 20e9, kNodeToStore = 3.5e9;
const char* const kApproaches[] = {"hybrid-opt", "hybrid-naive", "ssd-only", "cache-only"};
const char* const kFlushes[] = {"flushes=4", "flushes=4 order=cache-first", "flushes=each",
                                "flushes=auto order=cache-first waits=0"};

Outcome run(const std::string& words) {
  std::string error;
  const auto configuration = parse_configuration(words, error);
  EXPECT_TRUE(configuration) << words << ": " << error;
  if (!configuration) return {};
  Outcome outcome = simulate(configuration->scenario);
  EXPECT_EQ(outcome.wrong, "") << words;
  return outcome;
}

std::string approach(const std::string& name) {
  return " approach=" + name;
}

// Machines and programs without an approach and a way to flush.
std::vector<std::string> scenarios() {
  std::vector<std::string> all;
  std::mt19937 random(1);
  const auto pick = [&random](std::initializer_list<int> values) {
    return std::to_string(values.begin()[random() % values.size()]);
  };
  for (int i = 0; i < 10; ++i) {
    all.push_back("writers=" + pick({1, 3, 16, 64}) + " chunks=" + pick({1, 2, 7}) +
                  " cache_chunks=" + pick({1, 4, 32, 500}) + " store=" + pick({1, 7, 35, 70}) +
                  "e8 store_files=" + pick({1, 4, 16}) + " store_decline=0.0" + pick({0, 1, 2}) +
                  " read_weight=" + pick({0, 1}) + " checkpoints=" + pick({1, 2}) + " compute_s=" +
                  pick({0, 1, 20}) + " slowdown=0." + pick({0, 2}) + " nodes=" + pick({1, 1, 3}) +
                  " store_total=" + pick({1, 10, 100}) + "e9 seed=" + pick({1, 2, 3}));
  }
  return all;
}

TEST(SimulationTest, AllBytesArriveAndNoTierHoldsMoreThanItHasRoomFor) {
  for (const std::string& scenario : scenarios()) {
    for (const char* policy : kApproaches) {
      for (const char* flushes : kFlushes) {
        const std::string words = scenario + " " + flushes + approach(policy);
        std::string error;
        const Scenario what = parse_configuration(words, error)->scenario;
        const Outcome outcome = run(words);  // checks tiers at each event
        const double bytes = static_cast<double>(what.chunks_of_node()) * what.nodes *
                             what.checkpoints * kChunkBytes;
        EXPECT_NEAR(outcome.written_bytes, bytes, 1e-6 * bytes) << words;
        EXPECT_NEAR(outcome.flushed_bytes, bytes, 1e-6 * bytes) << words;
        EXPECT_LE(outcome.peaks[0], what.cache_chunks) << words;
        EXPECT_GE(outcome.complete_s, outcome.local_s) << words;
      }
    }
  }
}

// Nothing is faster than memory, nor than the store.
TEST(SimulationTest, NoTierIsFasterThanItIs) {
  for (const std::string& scenario : scenarios()) {
    for (const char* policy : kApproaches) {
      const std::string words =
          scenario + " checkpoints=1 store_left=1 flushes=each" + approach(policy);
      std::string error;
      const Scenario what = parse_configuration(words, error)->scenario;
      const Outcome outcome = run(words);
      const double bytes = static_cast<double>(what.chunks_of_node()) * kChunkBytes;
      const double store =
          std::min(what.machine.store.of_node, what.machine.store.total / what.nodes);
      EXPECT_GE(outcome.complete_s, bytes / store * (1 - 1e-6)) << words;
      const double devices = kMemory + 700e6;
      EXPECT_GE(outcome.local_s, bytes / devices * (1 - 1e-6)) << words;
    }
  }
}

// All fits into the memory there, and nothing waits. But memory is shared: more flushes read it,
// and its writers may keep it from flushes for as long as they write.
TEST(SimulationTest, TheIdealIsNotBehindAnyPolicy) {
  for (const std::string& scenario : scenarios()) {
    const std::string same = scenario + " checkpoints=1 compute_s=0";
    const Outcome ideal = run(same + approach("ideal"));
    std::string error;
    const Store store = parse_configuration(same, error)->scenario.machine.store;
    const double read = store.of_node / kMemory;
    // Its last flushes may be fewer than the store is best at.
    const double last_s = kChunkBytes / (store.of_one_file() * store.least_left);
    for (const char* policy : kApproaches) {
      for (const char* flushes : kFlushes) {
        const std::string words = same + " " + flushes + approach(policy);
        const Outcome outcome = run(words);
        EXPECT_GE(outcome.local_s, ideal.local_s * (1 - read)) << words;
        EXPECT_GE(outcome.complete_s, ideal.complete_s - ideal.local_s - last_s) << words;
      }
    }
  }
}

// With policies and flushes that do not depend on what is measured.
TEST(SimulationTest, AFasterStoreOrSsdIsNotSlower) {
  for (const std::string& scenario : scenarios()) {
    for (const std::string policy : {"ideal", "cache-only", "ssd-only"}) {
      const std::string words =
          scenario + " checkpoints=1 compute_s=0 ssd_decline=0 read_weight=0" + approach(policy);
      const Outcome slow = run(words + " store=1e9 store_total=2e9 ssd=3e8");
      for (const char* more :
           {" store=2e9 store_total=2e9 ssd=3e8", " store=1e9 store_total=4e9 ssd=3e8",
            " store=1e9 store_total=2e9 ssd=6e8"}) {
        const Outcome fast = run(words + more);
        // Faster flushes read more of the memory that writers share with them.
        EXPECT_LE(fast.local_s, slow.local_s * (1 + 4e9 / kMemory)) << words << more;
        EXPECT_LE(fast.complete_s, slow.complete_s * (1 + 1e-6)) << words << more;
      }
    }
  }
}

TEST(SimulationTest, OneChunkTakesAsLongAsArithmeticSays) {
  const Outcome cached = run("writers=1 chunks=1 store_left=1 approach=hybrid-naive");
  EXPECT_NEAR(cached.local_s, kChunkBytes / kMemory, 1e-9);
  EXPECT_NEAR(cached.complete_s, kChunkBytes / kMemory + kChunkBytes / (kNodeToStore / 16), 1e-9);
  const Outcome on_ssd = run("writers=1 chunks=1 store_left=1 ssd_rise=0 approach=ssd-only");
  EXPECT_NEAR(on_ssd.local_s, kChunkBytes / 700e6, 1e-9);
  const Outcome straight = run("writers=1 chunks=1 store_left=1 approach=synchronous");
  EXPECT_NEAR(straight.local_s, kChunkBytes / (kNodeToStore / 16), 1e-9);
  EXPECT_EQ(straight.local_s, straight.complete_s);
}

TEST(SimulationTest, NodesShareTheStore) {
  const std::string each = " writers=16 chunks=1 store_left=1 approach=synchronous store_total=7e9";
  EXPECT_NEAR(run("nodes=2" + each).local_s, 16 * kChunkBytes / kNodeToStore, 1e-9);
  EXPECT_NEAR(run("nodes=8" + each).local_s, 8 * 16 * kChunkBytes / 7e9, 1e-9);
}

TEST(SimulationTest, StagingLimitsHowManyWriteToTheSsd) {
  const std::string words = "writers=16 chunks=1 store_left=1 read_weight=0 approach=ssd-only";
  const double two = SsdCurve()(2);
  EXPECT_NEAR(run(words + " staging_slots=2").local_s, 16 * kChunkBytes / two, 1e-6);
  EXPECT_NEAR(run(words).local_s, 16 * kChunkBytes / 700e6, 1e-6);
}

TEST(SimulationTest, FlushesSlowTheComputationOfTheirNode) {
  // 16 chunks are flushed in 0.3 s, while the program computes at half its speed.
  const std::string words = "writers=16 chunks=1 store_left=1 approach=ideal compute_after_s=10";
  const Outcome free = run(words), slow = run(words + " slowdown=0.5");
  EXPECT_NEAR(free.increase_s, free.local_s, 1e-9);
  EXPECT_NEAR(slow.increase_s, slow.local_s + 0.5 * (slow.complete_s - slow.local_s), 1e-6);
}

TEST(SimulationTest, WarmUpsDoNotCount) {
  const std::string words =
      "writers=16 store_left=1 approach=ideal compute_s=50 compute_after_s=50";
  const double one = run(words).increase_s;
  EXPECT_NEAR(run(words + " checkpoints=3").increase_s, 3 * one, 1e-6);
  EXPECT_NEAR(run(words + " checkpoints=3 warm_up=2").increase_s, one, 1e-6);
}

TEST(SimulationTest, ASeedRepeatsExactly) {
  const std::string words = "writers=64 approach=hybrid-opt";
  EXPECT_EQ(run(words).complete_s, run(words).complete_s);
  EXPECT_NE(run(words).complete_s, run(words + " seed=2").complete_s);
}

TEST(ShareTest, WhatSmallCapsLeaveGoesToTheOthers) {
  const Demand demands[] = {{2, 10}, {1, 100}, {2, 1000}, {0, 1}};
  EXPECT_DOUBLE_EQ(water_level(demands, 25), 5);        // all alike
  EXPECT_DOUBLE_EQ(water_level(demands, 80), 20);       // 2 x 10, 3 x 20
  EXPECT_DOUBLE_EQ(water_level(demands, 620), 250);     // 2 x 10, 100, 2 x 250
  EXPECT_TRUE(std::isinf(water_level(demands, 2120)));  // all that they can use
}

// A store that gives `best` files the same each, and no more to more.
uint32_t limit_after(FlushLimit& limit, double best, int flushes) {
  double now_s = 0, moved = 0;
  for (int i = 0; i < flushes; ++i) {
    const double rate = std::min<double>(limit.now(), best);
    now_s += 1 / rate;
    limit.ended(now_s, ++moved, true);
  }
  return limit.now();
}

TEST(FlushLimitTest, ItFindsWhereMoreDoNotHelp) {
  for (const double best : {1., 4., 16.}) {
    FlushLimit limit({.threads = 4, .is_adaptive = true});
    // One more or one fewer may be on trial.
    EXPECT_NEAR(limit_after(limit, best, 1000), std::max(best, 4.), 1) << best;
  }
}

// One of twenty files more is less than the 5 % that it looks for.
TEST(FlushLimitTest, ItStopsAtTwentyOnAStoreThatTakesMore) {
  FlushLimit limit({.threads = 4, .is_adaptive = true});
  EXPECT_NEAR(limit_after(limit, 64, 5000), 20, 1);
}

TEST(FlushLimitTest, WithoutAChunkThatWaitsNothingIsLearnt) {
  FlushLimit limit({.threads = 4, .is_adaptive = true});
  for (int i = 0; i < 1000; ++i) limit.ended(i, 1000. * i * i, i % 4 != 0);
  EXPECT_EQ(limit.now(), 4U);
}

TEST(FlushQueueTest, TheSsdGetsAPartWhileTheCacheWaits) {
  FlushQueue queue(Flushing::Order::kCacheFirst);
  for (int i = 0; i < 3; ++i) {
    queue.add({1, 1. * i});
    queue.add({0, 10. + i});
  }
  EXPECT_EQ(queue.take(0, 16).tier, 1U);
  EXPECT_EQ(queue.take(3, 16).tier, 1U);
  EXPECT_EQ(queue.take(4, 16).tier, 0U);
  EXPECT_EQ(queue.take(0, 2).tier, 1U);
  EXPECT_EQ(queue.take(0, 2).tier, 0U);  // no other is left
}

TEST(FlushQueueTest, InOrderIsTheOrderOfWrites) {
  FlushQueue queue(Flushing::Order::kWritten);
  queue.add({1, 1});
  queue.add({0, 2});
  queue.add({1, 3});
  for (const size_t tier : {1U, 0U, 1U}) EXPECT_EQ(queue.take(9, 4).tier, tier);
}

TEST(ConfigurationTest, AWordThatCannotBeReadIsNamed) {
  for (const std::string word :
       {"writers=0", "approach=best", "nothing", "flushes=0", "waits=2", "order=backwards"}) {
    std::string error;
    EXPECT_FALSE(parse_configuration(word, error));
    EXPECT_EQ(error, "cannot read " + word);
  }
}

}  // namespace
}  // namespace gpusnap::comparison
