#include "tiers/compression/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gpusnap {
namespace {

using Mode = CompressionSetting::Mode;

constexpr uint64_t kChunk = 64 << 20;
constexpr uint64_t kBlock = 4 << 20;
constexpr CompressionSetting kAuto{};
constexpr CompressionSetting kLevel3{Mode::kLevel, 3};
constexpr CompressionSetting kOff{Mode::kOff, 1};

Trial trial(double ratio, double speed, uint64_t bytes = 64 << 10) {
  const auto size = static_cast<double>(bytes);
  return {bytes, static_cast<uint64_t>(size * ratio), static_cast<int64_t>(size * 1e9 / speed)};
}

// What was seen of floats: the third form is best.
Sample floats(double speed = 0.45e9) {
  return {{trial(0.8, speed), trial(0.52, speed), trial(0.32, speed), trial(0.33, speed)}};
}

Sample all(double ratio, double speed) {
  Sample sample;
  sample.trials.fill(trial(ratio, speed));
  return sample;
}

// The pipeline, block by block: `workers` take blocks in order, a block may be taken when there is
// one of `results` places for it, one after the other is stored.
double simulated_seconds(uint64_t blocks, uint32_t workers, uint64_t results, double compress,
                         double store) {
  std::vector<double> free(workers, 0), stored;
  for (uint64_t i = 0; i < blocks; ++i) {
    const auto worker = std::min_element(free.begin(), free.end());
    const double begin = std::max(*worker, i < results ? 0 : stored[i - results]);
    *worker = begin + compress;
    stored.push_back(std::max(*worker, i == 0 ? 0 : stored.back()) + store);
  }
  return stored.back();
}

TEST(CompressionModel, IsWhatTheStagesTake) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t blocks = 1 + random() % 20;
    const auto workers = static_cast<uint32_t>(1 + random() % 8);
    const double speed = 1e8 * static_cast<double>(1 + random() % 50);
    const double bandwidth = 1e8 * static_cast<double>(1 + random() % 50);
    const double ratio = static_cast<double>(random() % 101) / 100;
    const Situation chunk{blocks * kBlock, kBlock, workers, bandwidth};
    const double seconds = compressed_seconds(chunk, speed, ratio);
    const double compress = kBlock / speed, store = kBlock * ratio / bandwidth;
    EXPECT_NEAR(seconds, simulated_seconds(blocks, workers, blocks, compress, store),
                1e-9 * seconds);
    // Twice as many places as workers are as good as any number.
    EXPECT_NEAR(seconds, simulated_seconds(blocks, workers, 2 * workers, compress, store),
                1e-9 * seconds);
  }
}

TEST(CompressionPolicy, CompressesWhereTheStoreIsSlow) {
  Policy policy(kAuto);
  const Situation slow{kChunk, kBlock, 2, 200e6};
  ASSERT_TRUE(policy.wants_sample(slow));
  const Decision decision = policy.decide(slow, floats());
  EXPECT_EQ(decision.form, Form::kShuffle4);
  EXPECT_NEAR(decision.ratio, 0.32, 0.001);
  EXPECT_NEAR(decision.speed, 0.45e9, 1e6);
  EXPECT_LT(decision.seconds, raw_seconds(slow) / 2);
}

TEST(CompressionPolicy, LeavesItWhereCompressingTakesLonger) {
  Policy policy(kAuto);
  EXPECT_EQ(policy.decide({kChunk, kBlock, 2, 1e9}, floats()).form, Form::kStored);
  // More workers make it pay, and none do not.
  EXPECT_EQ(policy.decide({kChunk, kBlock, 4, 1e9}, floats()).form, Form::kShuffle4);
  EXPECT_EQ(policy.decide({kChunk, kBlock, 0, 1e6}, floats()).form, Form::kStored);
  // Nor is anything begun while nobody knows how fast the store is.
  EXPECT_EQ(policy.decide({kChunk, kBlock, 4, 0}, floats()).form, Form::kStored);
  EXPECT_FALSE(policy.wants_sample({kChunk, kBlock, 4, 0}));
  EXPECT_FALSE(policy.wants_sample({kChunk, kBlock, 0, 1e6}));
}

TEST(CompressionPolicy, TakesTheFasterFormWhereThatEndsEarlier) {
  Policy policy(kAuto);
  Sample sample;
  sample.trials = {trial(0.6, 3e9), trial(1, 3e9), trial(0.3, 0.3e9), trial(1, 3e9)};
  EXPECT_EQ(policy.decide({kChunk, kBlock, 2, 1e9}, sample).form, Form::kZstd);
  EXPECT_EQ(policy.decide({kChunk, kBlock, 2, 0.1e9}, sample).form, Form::kShuffle4);
}

TEST(CompressionPolicy, LeavesWhatHardlyShrinks) {
  const Situation slow{kChunk, kBlock, 2, 1e6};
  EXPECT_EQ(Policy(kAuto).decide(slow, all(0.97, 2e9)).form, Form::kStored);
  EXPECT_EQ(Policy(kLevel3).decide(slow, all(0.97, 2e9)).form, Form::kStored);
  EXPECT_EQ(Policy(kAuto).decide(slow, all(0.8, 2e9)).form, Form::kZstd);
  EXPECT_EQ(Policy(kAuto).decide(slow, Sample()).form, Form::kStored);
}

TEST(CompressionPolicy, DoesAsItIsSet) {
  const Situation fast{kChunk, kBlock, 1, 100e9};
  Policy level(kLevel3), off(kOff);
  EXPECT_EQ(level.codec().level, 3);
  EXPECT_TRUE(level.wants_sample(fast));
  EXPECT_EQ(level.decide(fast, floats()).form, Form::kShuffle4);
  EXPECT_EQ(level.decide({kChunk, kBlock, 1, 0}, floats()).form, Form::kShuffle4);
  EXPECT_FALSE(off.wants_sample({kChunk, kBlock, 8, 1}));
  EXPECT_EQ(off.decide({kChunk, kBlock, 8, 1}, floats()).form, Form::kStored);
}

TEST(CompressionPolicy, SamplesRarelyWhereNothingCanPay) {
  Policy policy(kAuto);
  const Situation fast{kChunk, kBlock, 2, 10e9};
  ASSERT_TRUE(policy.wants_sample(fast)) << "nothing is known yet";
  (void)policy.decide(fast, floats());
  int sampled = 0;
  for (int i = 0; i < 160; ++i) {
    if (!policy.wants_sample(fast)) continue;
    ++sampled;
    (void)policy.decide(fast, floats());
  }
  EXPECT_EQ(sampled, 10);
  // The store became slow: at once.
  EXPECT_TRUE(policy.wants_sample({kChunk, kBlock, 2, 100e6}));
}

// A block takes 4 MiB / 0.45e9 * 1.5, 14 ms with all caution.
TEST(CompressionPolicy, AnUnknownStoreIsNotKeptWaiting) {
  Policy policy(kAuto);
  Situation chunk{kChunk, kBlock, 1, 0};
  EXPECT_FALSE(policy.wants_sample(chunk)) << "it is idle";
  chunk.busy_seconds = 0.010;
  EXPECT_TRUE(policy.wants_sample(chunk));
  EXPECT_EQ(policy.decide(chunk, floats()).form, Form::kStored);
  chunk.busy_seconds = 0.016;
  EXPECT_EQ(policy.decide(chunk, floats()).form, Form::kShuffle4);
  EXPECT_EQ(policy.decide(chunk, all(0.97, 2e9)).form, Form::kStored) << "it hardly shrinks";
  chunk.workers = 0;
  EXPECT_EQ(policy.decide(chunk, floats()).form, Form::kStored);
}

TEST(CompressionPolicy, LearnsWhatBlocksReallyTake) {
  Policy policy(kAuto);
  const Situation chunk{kChunk, kBlock, 2, 400e6};
  const Decision first = policy.decide(chunk, floats());
  ASSERT_EQ(first.form, Form::kShuffle4);
  for (int i = 0; i < 16; ++i) {
    policy.learn(first.form, trial(0.32, first.speed / 4, kBlock), first.speed);
  }
  EXPECT_NEAR(policy.slowness(Form::kShuffle4), 4, 0.1) << "within one chunk";
  // The others would meet the same machine.
  EXPECT_NEAR(policy.slowness(Form::kZstd), 4, 0.1);
  const Decision second = policy.decide(chunk, floats());
  EXPECT_EQ(second.form, Form::kStored);
  // Tried again in time.
  Form form = second.form;
  for (int i = 0; i < 300 && form != Form::kShuffle4; ++i) {
    form = policy.decide(chunk, floats()).form;
  }
  EXPECT_EQ(form, Form::kShuffle4);
}

TEST(CompressionPolicy, BelievesInSlowBlocksSoonerThanInFastOnes) {
  Policy policy(kAuto);
  for (int i = 0; i < 4; ++i) policy.learn(Form::kZstd, trial(0.5, 1e8, kBlock), 3e8);
  EXPECT_GT(policy.slowness(Form::kZstd), 2);
  for (int i = 0; i < 4; ++i) policy.learn(Form::kZstd, trial(0.5, 3e8, kBlock), 3e8);
  EXPECT_GT(policy.slowness(Form::kZstd), 1.5);
  for (int i = 0; i < 60; ++i) policy.learn(Form::kZstd, trial(0.5, 3e8, kBlock), 3e8);
  EXPECT_LT(policy.slowness(Form::kZstd), 1.1);
}

TEST(CompressionPolicy, NeverLaterThanWithout) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(0, 1);
  int compressed = 0;
  for (int run = 0; run < 300; ++run) {
    Policy policy(kAuto);
    double with = 0, without = 0;  // when the store has the last chunk
    for (int i = 0; i < 20; ++i) {
      const uint64_t bytes = kLeastSampledChunk + random() % (kChunk - kLeastSampledChunk);
      const Situation chunk{bytes, kBlock, static_cast<uint32_t>(1 + random() % 8),
                            1e7 * std::pow(1000, unit(random))};
      Sample sample;
      for (Trial& each : sample.trials) {
        each = trial(unit(random), 1e8 * std::pow(30, unit(random)));
      }
      without += raw_seconds(chunk);
      Decision decision;
      if (policy.wants_sample(chunk)) {
        decision = policy.decide(chunk, sample);
        if (decision.form != Form::kStored) with += static_cast<double>(sample.sum().ns) * 1e-9;
      }
      if (decision.form == Form::kStored) {
        with += raw_seconds(chunk);
        continue;
      }
      ++compressed;
      // Really up to half as slow again as sampled, and everything waits for the store.
      const uint64_t blocks = (bytes + kBlock - 1) / kBlock;
      const double block = static_cast<double>(bytes) / static_cast<double>(blocks);
      with += simulated_seconds(blocks, chunk.workers, 2 * chunk.workers,
                                block / decision.speed * (1 + 0.5 * unit(random)),
                                block * decision.ratio / chunk.flush_bandwidth);
      ASSERT_LE(with, without * 1.0001) << run << " " << i;
    }
  }
  EXPECT_GT(compressed, 1000);
}

TEST(ChunkCourse, GoesOnAsDecided) {
  Policy policy(kAuto);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(course.next(), Form::kShuffle4);
    course.done(trial(0.3, 0.4e9, kBlock), 200e6);
  }
}

TEST(ChunkCourse, StopsWhereWorkersTurnOutSlowerThanTheStore) {
  Policy policy(kAuto);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  course.done(trial(0.3, 0.09e9, kBlock), 200e6);
  EXPECT_EQ(course.next(), Form::kShuffle4) << "one block is no reason";
  course.done(trial(0.3, 0.09e9, kBlock), 200e6);
  EXPECT_EQ(course.next(), Form::kStored);
}

TEST(ChunkCourse, StopsWhereTheStoreTurnsOutFaster) {
  Policy policy(kAuto);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  for (int i = 0; i < 4; ++i) course.done(trial(0.3, 0.4e9, kBlock), 700e6);
  EXPECT_EQ(course.next(), Form::kShuffle4);
  course.done(trial(0.3, 0.4e9, kBlock), 800e6);
  EXPECT_EQ(course.next(), Form::kStored);
}

TEST(ChunkCourse, StopsWhereNothingShrinks) {
  for (const CompressionSetting& setting : {kAuto, kLevel3}) {
    Policy policy(setting);
    const Situation chunk{kChunk, kBlock, 2, 200e6};
    ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
    course.done(trial(1, 2e9, kBlock), 200e6);
    course.done(trial(1, 2e9, kBlock), 200e6);
    EXPECT_EQ(course.next(), Form::kStored);
  }
}

TEST(ChunkCourse, AnAskedForLevelIsNotHurried) {
  Policy policy(kLevel3);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  for (int i = 0; i < 16; ++i) course.done(trial(0.3, 1e6, kBlock), 200e6);
  EXPECT_EQ(course.next(), Form::kShuffle4);
}

TEST(CompressionSetting, IsReadOrRefused) {
  EXPECT_EQ(parse_compression("auto").value(), kAuto);
  EXPECT_EQ(parse_compression("off").value().mode, Mode::kOff);
  for (int level = 1; level <= 19; ++level) {
    const auto setting = parse_compression(std::to_string(level));
    ASSERT_TRUE(setting.ok());
    EXPECT_EQ(setting.value(), (CompressionSetting{Mode::kLevel, level}));
  }
  for (const char* text : {"", "0", "20", "-1", "+1", " 1", "1 ", "1.5", "on", "Auto", "autox",
                           "99999999999999999999"}) {
    const auto setting = parse_compression(text);
    ASSERT_FALSE(setting.ok()) << text;
    EXPECT_NE(setting.status().message().find("1 to 19"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpusnap
