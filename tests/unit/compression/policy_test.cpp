#include "tiers/compression/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
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

// A sample of floats: the third form is best.
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

// The sample says which form is smallest, and nothing else.
TEST(CompressionPolicy, AnAskedForLevelIsNotDecidedByTheSample) {
  Policy level(kLevel3);
  const Situation fast{kChunk, kBlock, 1, 100e9};
  EXPECT_NE(level.decide(fast, all(0.97, 2e9)).form, Form::kStored);
  EXPECT_NE(level.decide(fast, all(1, 2e9)).form, Form::kStored);
  EXPECT_NE(level.decide(fast, Sample()).form, Form::kStored) << "it could not be taken";
  Sample sample = all(1, 2e9);
  sample.trials[3] = trial(0.999, 1e6);
  EXPECT_EQ(level.decide(fast, sample).form, kCompressedForms[3]);
}

TEST(CompressionPolicy, SmallChunksAreForItToDecide) {
  const Situation slow{4096, 4096, 1, 1e5};
  EXPECT_TRUE(Policy(kLevel3).wants_sample(slow));
  Policy policy(kAuto);
  ASSERT_TRUE(policy.wants_sample(slow));
  EXPECT_EQ(policy.decide(slow, floats()).form, Form::kShuffle4);
  // On a fast store the sample alone would take too long.
  const Situation fast{4096, 4096, 1, 1e9};
  int sampled = 0;
  for (int i = 0; i < 160; ++i) sampled += policy.wants_sample(fast) ? 1 : 0;
  EXPECT_EQ(sampled, 10);
  EXPECT_EQ(policy.decide(fast, floats()).form, Form::kStored);
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

// A machine, and what some data really is on it. Nothing of it is the policy's.
struct Machine {
  uint32_t workers = 1;
  double bandwidth = 0;  // of its store
  double speed = 0;      // of one worker
  double promised = 1;   // times that speed is what samples show
  double ratio = 1;
};

// The course of a checkpoint of so many chunks: workers take blocks in order, and at most kWrites
// results wait for the store, which takes one after the other. Tells when the store has the last.
class Pipeline {
 public:
  explicit Pipeline(const Machine& machine) : machine_(machine), free_(machine.workers, 0) {}

  double seconds_with(Policy& policy, int chunks) {
    for (int i = 0; i < chunks; ++i) pass_chunk(policy);
    return stored_.back();
  }

 private:
  static constexpr size_t kWrites = 8;

  void pass_chunk(Policy& policy) {
    const Situation chunk{kChunk, kBlock, machine_.workers, machine_.bandwidth};
    Decision decision;
    if (policy.wants_sample(chunk)) {
      const Sample sample = all(machine_.ratio, machine_.speed * machine_.promised);
      next_worker() += static_cast<double>(sample.sum().ns) * 1e-9;
      decision = policy.decide(chunk, sample);
    }
    ChunkCourse course(policy, chunk, decision);
    std::multimap<double, Trial> ends;  // of blocks that are being compressed
    const auto tell_until = [&](double now) {
      for (; !ends.empty() && ends.begin()->first <= now; ends.erase(ends.begin())) {
        course.done(ends.begin()->second, machine_.bandwidth);
      }
    };
    for (uint64_t i = 0; i < kChunk / kBlock; ++i) {
      double& worker = next_worker();
      if (stored_.size() >= kWrites) worker = std::max(worker, stored_[stored_.size() - kWrites]);
      tell_until(worker);
      double bytes = kBlock;
      if (course.next() != Form::kStored) {
        worker += bytes / machine_.speed;
        ends.emplace(worker, trial(machine_.ratio, machine_.speed, kBlock));
        bytes *= machine_.ratio;
      }
      const double before = stored_.empty() ? 0 : stored_.back();
      stored_.push_back(std::max(worker, before) + bytes / machine_.bandwidth);
    }
    tell_until(std::numeric_limits<double>::infinity());
  }

  double& next_worker() { return *std::min_element(free_.begin(), free_.end()); }

  const Machine machine_;
  std::vector<double> free_;  // when each worker is
  std::vector<double> stored_;
};

// The promise to a user, on any machine, and however wrong samples are: a checkpoint ends no later
// than without compression, but for the few blocks that it takes to find that out. If compressing
// everything ends earlier, most of that time is saved.
TEST(CompressionPolicy, EndsNoLaterThanWithout) {
  constexpr int kChunks = 60;
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> unit(0, 1);
  double could_save = 0, saves = 0;  // parts of the time
  for (int run = 0; run < 500; ++run) {
    Machine machine;
    machine.workers = static_cast<uint32_t>(1 + random() % 8);
    machine.bandwidth = 1e7 * std::pow(1000, unit(random));
    machine.speed = 1e8 * std::pow(30, unit(random));
    machine.promised = std::pow(8, 1.3 * unit(random) - 0.3);
    machine.ratio = unit(random);
    Policy policy(kAuto), off(kOff), level(kLevel3);
    const double with = Pipeline(machine).seconds_with(policy, kChunks);
    const double without = Pipeline(machine).seconds_with(off, kChunks);
    const double all_of_it = Pipeline(machine).seconds_with(level, kChunks);
    ASSERT_LE(with, without * 1.03) << "run " << run;
    could_save += std::max(without - all_of_it, 0.0) / without;
    saves += (without - with) / without;
  }
  EXPECT_GT(saves, 0.75 * could_save);
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
  Policy policy(kAuto);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  course.done(trial(1, 2e9, kBlock), 200e6);
  course.done(trial(1, 2e9, kBlock), 200e6);
  EXPECT_EQ(course.next(), Form::kStored);
}

// Nor is a chunk given up whose first blocks do not shrink: others may.
TEST(ChunkCourse, AnAskedForLevelIsNotHurried) {
  Policy policy(kLevel3);
  const Situation chunk{kChunk, kBlock, 2, 200e6};
  ChunkCourse course(policy, chunk, policy.decide(chunk, floats()));
  for (int i = 0; i < 16; ++i) course.done(trial(0.3, 1e6, kBlock), 200e6);
  EXPECT_EQ(course.next(), Form::kShuffle4);
  for (int i = 0; i < 100; ++i) course.done(trial(1, 1e6, kBlock), 200e6);
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
