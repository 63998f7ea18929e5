// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/flush_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

constexpr double kChunk = 64 << 20;

// Bytes a second of all, by how many are flushed at the same time.
using Store = std::function<double(uint32_t)>;

double best_of(const Store& store) {
  double best = 0;
  for (uint32_t n = 1; n <= kMostFlushes; ++n) best = std::max(best, store(n));
  return best;
}

// Flushes that share the store evenly, in virtual time. Chunks are not quite of one size, and the
// store's speed varies.
class Flushing {
 public:
  Flushing(FlushControl& control, double noise, unsigned seed)
      : control_(control), noise_(noise), random_(seed) {}

  // How much of what the best number would have reached was reached, in so many flushes.
  double run(const Store& store, int flushes) {
    const double began = seconds_;
    double all = 0;
    for (int i = 0; i < flushes; ++i) {
      while (on_way_.size() < control_.flushes()) on_way_.push_back(chunk());
      const auto first = std::ranges::min_element(on_way_, {}, &Flush::left);
      const double size = first->size;
      const double each = first->left;
      const auto number = static_cast<uint32_t>(on_way_.size());
      seconds_ += each * number / (store(number) * varied());
      for (Flush& flush : on_way_) flush.left -= each;
      on_way_.erase(first);
      all += size;
      control_.ended(static_cast<int64_t>(seconds_ * 1e9), static_cast<uint64_t>(size), true);
    }
    return all / (seconds_ - began) / best_of(store);
  }

 private:
  struct Flush {
    double size = 0;
    double left = 0;
  };
  double varied() { return std::uniform_real_distribution(1 - noise_, 1 + noise_)(random_); }
  Flush chunk() {
    const double size = kChunk * std::uniform_real_distribution(0.9, 1.0)(random_);
    return {size, size};
  }

  FlushControl& control_;
  const double noise_;
  std::mt19937 random_;
  std::vector<Flush> on_way_;
  double seconds_ = 0;
};

// Rises in proportion to n^rise up to `best`, and falls with n^fall from there.
Store peak(uint32_t best, double rise, double fall) {
  return [=](uint32_t n) {
    const double by = static_cast<double>(n) / best;
    return 1e9 * (n <= best ? std::pow(by, rise) : std::pow(by, -fall));
  };
}

constexpr int kToLearn = 4000;
constexpr int kToCount = 4000;
constexpr double kBar = 0.9;

double reached(const Store& store, double noise, unsigned seed) {
  FlushControl control(1, kMostFlushes);
  Flushing flushing(control, noise, seed);
  (void)flushing.run(store, kToLearn);
  return flushing.run(store, kToCount);
}

TEST(FlushControl, IsWithinATenthOfTheBest) {
  for (const uint32_t best : {1, 4, 16, 64}) {
    for (const double rise : {0.3, 1.0}) {
      for (const double fall : {0.3, 1.0}) {
        EXPECT_GE(reached(peak(best, rise, fall), 0.02, best), kBar)
            << "best with " << best << ", rise " << rise << ", fall " << fall;
      }
    }
  }
}

// With nearly any: where a store hardly gains by more flushes, noise hides what there is to gain.
TEST(FlushControl, IsWithinATenthOfTheBestOfAnyStore) {
  constexpr double kAlways = 0.8;
  unsigned below = 0;
  std::mt19937 random(3);
  const auto draw = [&](double from, double to) {
    return std::uniform_real_distribution(from, to)(random);
  };
  const unsigned stores = std::getenv("GPUSNAP_SOAK") != nullptr ? 2000 : 12;
  for (unsigned i = 0; i < stores; ++i) {
    const auto best = static_cast<uint32_t>(std::lround(std::exp2(draw(0, 6))));
    const double rise = draw(0, 1), fall = draw(0, 1);
    const double part = reached(peak(best, rise, fall), 0.02, i);
    EXPECT_GE(part, kAlways) << "store " << i << ", best with " << best << ", rise " << rise
                             << ", fall " << fall;
    below += part < kBar ? 1 : 0;
  }
  EXPECT_LE(below, stores / 25);
}

// How many are flushed at the same time once there was time to learn, on average over some seeds.
// The store is as fast with any number from 16 on. Others leave `least` of it to all of it, in
// turns.
double flushes_where_16_are_enough(double least) {
  constexpr int kTurn = 60, kTurns = 160, kSeeds = 20;
  double sum = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    FlushControl control(1, kMostFlushes);
    Flushing flushing(control, 0, seed);
    std::mt19937 random(seed);
    for (int turn = 0; turn < kTurns; ++turn) {
      const double left = std::uniform_real_distribution(least, 1.0)(random);
      (void)flushing.run([left](uint32_t n) { return left * peak(16, 1, 0)(n); }, kTurn);
      if (turn >= kTurns / 2) sum += control.flushes();
    }
  }
  return sum / (kSeeds * kTurns / 2);
}

// Each of many is slow: a local device would look better beside them.
TEST(FlushControl, OfAsGoodNumbersItTakesTheFewer) {
  EXPECT_LT(flushes_where_16_are_enough(1), 20);
}

// By chance more look better.
TEST(FlushControl, WhatOthersLeaveIsNotTakenForItsOwnDoing) {
  EXPECT_LT(flushes_where_16_are_enough(0.5), 26);
}

// Few chunks at a time: what cannot be measured with them is not stayed with.
TEST(FlushControl, LeavesANumberThatTooFewChunksCannotMeasure) {
  constexpr int kBurst = 80, kBursts = 60;
  const Store store = peak(16, 1, 0);
  FlushControl control(1, kMostFlushes);
  double seconds = 0, flushes = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int left = kBurst; left > 0; --left) {
      const auto number = std::min<uint32_t>(control.flushes(), static_cast<uint32_t>(left));
      seconds += kChunk / store(number);
      control.ended(static_cast<int64_t>(seconds * 1e9), static_cast<uint64_t>(kChunk),
                    left > static_cast<int>(control.flushes()));
    }
    if (burst >= kBursts / 2) flushes += control.flushes();
  }
  EXPECT_NEAR(flushes / (kBursts / 2), 16, 4);
}

// Flushes of a store that gains up to 64, beside a program whose threads wait for its own files: as
// many as `waits` says. How many flushes there are in the end.
uint32_t flushes_beside(const std::function<uint32_t(uint32_t)>& waits) {
  FlushControl control(1, kMostFlushes);
  const Store store = peak(kMostFlushes, 1, 1);
  double seconds = 0;
  for (int i = 0; i < kToLearn; ++i) {
    seconds += kChunk / store(control.flushes());
    control.waited(waits(control.flushes()));
    control.ended(static_cast<int64_t>(seconds * 1e9), static_cast<uint64_t>(kChunk), true);
  }
  return control.best();
}

TEST(FlushControl, StopsWhereAProgramsOwnFilesSuffer) {
  EXPECT_GE(flushes_beside([](uint32_t) { return 2; }), 48U) << "they wait in any case";
  EXPECT_LE(flushes_beside([](uint32_t flushes) { return flushes > 8 ? 3 : 0; }), 8U);
  EXPECT_GE(flushes_beside([](uint32_t flushes) { return flushes > 8 ? 3 : 0; }), 4U);
}

// With four, where it begins, they suffer already.
TEST(FlushControl, TakesFewerWhereAProgramsOwnFilesSufferLess) {
  EXPECT_EQ(flushes_beside([](uint32_t flushes) { return flushes - 1; }), 1U);
}

// It stays with that through a checkpoint, before it looks around.
TEST(FlushControl, BeginsWithWhatAnEarlierOneHasFound) {
  FlushControl first(1, kMostFlushes);
  EXPECT_EQ(first.best(), 0U);
  const Store store = peak(16, 1, 1);
  EXPECT_GE(Flushing(first, 0.02, 1).run(store, kToLearn), 0.5);
  FlushControl next(1, kMostFlushes, first.best());
  EXPECT_EQ(next.best(), first.best());
  EXPECT_GE(Flushing(next, 0.02, 2).run(store, 100), kBar);
}

TEST(FlushControl, NoSettingIsExceededForAnEarlierOne) {
  EXPECT_EQ(FlushControl(1, 8, 30).flushes(), 8U);
  const FlushControl fixed(4, 4, 30);
  EXPECT_EQ(fixed.flushes(), 4U);
  EXPECT_EQ(fixed.best(), 0U);
}

// Where it is wrong by now, that is found out.
TEST(FlushControl, LeavesTheNumberOfAnEarlierOneBehind) {
  for (const uint32_t known : {1U, kMostFlushes}) {
    FlushControl control(1, kMostFlushes, known);
    Flushing flushing(control, 0.02, known);
    (void)flushing.run(peak(8, 1, 1), 2 * kToLearn);
    EXPECT_GE(flushing.run(peak(8, 1, 1), kToCount), kBar) << known;
  }
}

TEST(FlushControl, FollowsAStoreThatChanges) {
  FlushControl control(1, kMostFlushes);
  Flushing flushing(control, 0.02, 1);
  for (const uint32_t best : {16, 2, 32, 1}) {
    (void)flushing.run(peak(best, 1, 0.5), 3 * kToLearn);
    EXPECT_GE(flushing.run(peak(best, 1, 0.5), kToCount), kBar) << "best with " << best;
  }
}

TEST(FlushControl, StaysWithinItsLimits) {
  FlushControl control(2, 10);
  Flushing flushing(control, 0.5, 1);
  for (int i = 0; i < 2000; ++i) {
    (void)flushing.run(peak(64, 1, 1), 1);
    EXPECT_GE(control.flushes(), 2U);
    EXPECT_LE(control.flushes(), 10U);
  }
  FlushControl fixed(7, 7);
  Flushing with_fixed(fixed, 0.5, 1);
  (void)with_fixed.run(peak(64, 1, 1), 500);
  EXPECT_EQ(fixed.flushes(), 7U);
}

// A store that is not kept busy says nothing.
TEST(FlushControl, LearnsNothingWhereThereIsLittleToFlush) {
  FlushControl control(1, kMostFlushes);
  for (int64_t i = 0; i < 10'000; ++i) control.ended(i * 1'000'000, 1 << 20, i % 5 != 0);
  EXPECT_EQ(control.flushes(), kFirstFlushes);
  for (int64_t i = 0; i < 10'000; ++i) {
    control.ended(i * 1'000'000, 1 << 20, true);
    if (i % 5 == 0) control.interrupted();
  }
  EXPECT_EQ(control.flushes(), kFirstFlushes);
}

}  // namespace
}  // namespace gpusnap
