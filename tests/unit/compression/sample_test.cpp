#include "tiers/compression/sample.h"

#include <gtest/gtest.h>

#include "tests/unit/compression/blocks.h"

namespace gpusnap {
namespace {

constexpr size_t kSampled = 1 << 20;

// A microsecond from look to look.
class StepClock final : public Clock {
 public:
  int64_t now_ns() override { return now_ += 1000; }

 private:
  int64_t now_ = 0;
};

Sample sample_of(const std::vector<Bytes>& blocks) {
  StepClock clock;
  auto sampler = Sampler::make({}, clock);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  const std::vector<std::span<const std::byte>> spans(blocks.begin(), blocks.end());
  auto sample = sampler.value()->take(spans);
  EXPECT_TRUE(sample.ok()) << sample.status().message();
  return sample.value();
}

TEST(SamplePlan, IsASmallPartOfTheChunk) {
  for (uint64_t chunk = 1; chunk <= 64 << 20; chunk += 1 + chunk / 3) {
    const SamplePlan plan = plan_sample(chunk);
    EXPECT_LE(plan.bytes(), std::max<uint64_t>(chunk / 128, 16 << 10)) << chunk;
    EXPECT_GT(plan.bytes(), 0U) << chunk;
  }
  EXPECT_EQ(plan_sample(0).bytes(), 0U);
  const SamplePlan whole = plan_sample(64 << 20);
  EXPECT_EQ(whole.piece_bytes, 32U << 10);
  EXPECT_EQ(whole.first_pieces + whole.more_pieces, 8U);
}

TEST(Sampler, TakesNoMoreThanItsPlan) {
  for (const size_t blocks : {1, 3, 16}) {
    const std::vector<Bytes> chunk(blocks, smooth_block<float>(kSampled));
    const Trial sum = sample_of(chunk).sum();
    EXPECT_EQ(sum.bytes, plan_sample(blocks * kSampled).bytes());
    EXPECT_GT(sum.ns, 0);
  }
  EXPECT_EQ(sample_of({Bytes(1000)}).sum().bytes, 1000 * kCompressedForms.size());
  EXPECT_EQ(sample_of({}).sum().bytes, 0U);
}

TEST(Sampler, SeesWhichFormIsSmallest) {
  const auto best = [](const std::vector<Bytes>& blocks) {
    const Sample sample = sample_of(blocks);
    Form form = Form::kStored;
    double ratio = 0.95;
    for (const Form each : kCompressedForms) {
      if (sample.of(each).ratio() < ratio) {
        ratio = sample.of(each).ratio();
        form = each;
      }
    }
    return form;
  };
  EXPECT_EQ(best(std::vector<Bytes>(16, smooth_block<float>(kSampled))), Form::kShuffle4);
  EXPECT_EQ(best(std::vector<Bytes>(16, smooth_block<double>(kSampled))), Form::kShuffle8);
  EXPECT_NE(best(std::vector<Bytes>(16, Bytes(kSampled))), Form::kStored);
  EXPECT_EQ(best(std::vector<Bytes>(16, random_block(kSampled))), Form::kStored);
}

// The form that is tried throughout says how much of the chunk is alike.
TEST(Sampler, LooksAtAllOfTheChunk) {
  std::vector<Bytes> half;
  for (uint64_t i = 0; i < 16; ++i) {
    half.push_back(i % 4 < 2 ? Bytes(kSampled) : random_block(kSampled, i));
  }
  const Sample sample = sample_of(half);
  double most_bytes = 0, ratio = 1;
  for (const Trial& trial : sample.trials) {
    if (static_cast<double>(trial.bytes) > most_bytes) {
      most_bytes = static_cast<double>(trial.bytes);
      ratio = trial.ratio();
    }
  }
  EXPECT_GT(ratio, 0.3);
  EXPECT_LT(ratio, 0.7);
}

TEST(Sampler, TakesBlocksOfAnySize) {
  std::vector<Bytes> chunk;
  for (const size_t size : {1, 70000, 0, 3, 500000, 100}) chunk.push_back(index_block(size));
  const Sample sample = sample_of(chunk);
  EXPECT_GT(sample.sum().bytes, 0U);
  for (const Trial& trial : sample.trials) EXPECT_LE(trial.compressed, trial.bytes);
}

}  // namespace
}  // namespace gpusnap
