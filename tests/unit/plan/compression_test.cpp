// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/compression.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpusnap::plan {
namespace {

// k = 500, k' = 1000, k'' = 12500; Tzip is the busiest stage.
CompressionCosts example() {
  return {.bytes = 1e8,
          .collect_s = 1,
          .compress_s = 25,
          .ratio = 0.5,
          .process_rate = 2e7,
          .file_system_rate = 1e10};
}

TEST(Compression, NumbersThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(check(example()).ok());
  for (double CompressionCosts::*member :
       {&CompressionCosts::bytes, &CompressionCosts::ratio, &CompressionCosts::process_rate,
        &CompressionCosts::file_system_rate}) {
    CompressionCosts costs = example();
    costs.*member = 0;
    EXPECT_EQ(check(costs).code(), Code::kInvalid);
  }
  CompressionCosts costs = example();
  costs.collect_s = -1;
  EXPECT_FALSE(check(costs).ok());
}

TEST(Compression, SaturationAndBenefitAreWhereTheyShouldBe) {
  const CompressionPoints at = points_of(example());
  EXPECT_DOUBLE_EQ(at.saturation, 500);
  EXPECT_DOUBLE_EQ(at.compressed_saturation, 1000);
  EXPECT_DOUBLE_EQ(at.pipelined_saturation, 25 * 1e10 / 5e7);
  EXPECT_DOUBLE_EQ(at.sequential_benefit, 25 * 1e10 / (0.5 * 1e8));  // Tzip Bf / ((1-d) S)
  EXPECT_DOUBLE_EQ(at.pipelined_benefit, (25 - 1) * 1e10 / 1e8);     // (max(...) - Tc) Bf / S
}

// At each point the two curves cross: just before it the uncompressed one is faster.
TEST(Compression, BenefitBeginsAtItsPoints) {
  for (const double compress_s : {5.0, 7.0, 25.0, 60.0}) {
    CompressionCosts costs = example();
    costs.compress_s = compress_s;
    const CompressionPoints at = points_of(costs);
    const CheckpointTimes before = corrected_times(costs, at.sequential_benefit * 0.999);
    const CheckpointTimes after = corrected_times(costs, at.sequential_benefit * 1.001);
    EXPECT_GT(before.sequential_s, before.uncompressed_s) << compress_s;
    EXPECT_LT(after.sequential_s, after.uncompressed_s) << compress_s;
    if (at.pipelined_benefit == 0) {
      EXPECT_LE(corrected_times(costs, 1).pipelined_s, corrected_times(costs, 1).uncompressed_s);
      continue;
    }
    EXPECT_GT(corrected_times(costs, at.pipelined_benefit * 0.999).pipelined_s,
              corrected_times(costs, at.pipelined_benefit * 0.999).uncompressed_s);
    EXPECT_LT(corrected_times(costs, at.pipelined_benefit * 1.001).pipelined_s,
              corrected_times(costs, at.pipelined_benefit * 1.001).uncompressed_s);
  }
}

TEST(Compression, DataThatDoNotShrinkNeverBenefit) {
  CompressionCosts costs = example();
  costs.ratio = 1;
  EXPECT_TRUE(std::isinf(points_of(costs).sequential_benefit));
  EXPECT_TRUE(std::isinf(points_of(costs).pipelined_benefit));
}

// The printed formula falls at k: one process more, and storing takes no time at all.
TEST(Compression, PrintedFormulasJumpAndCorrectedOnesDoNot) {
  const CompressionCosts costs = example();
  EXPECT_NEAR(printed_times(costs, 500).uncompressed_s, 1 + 1e8 / 1e10, 1e-12);
  EXPECT_NEAR(printed_times(costs, 500.001).uncompressed_s, 1, 1e-4);
  EXPECT_NEAR(corrected_times(costs, 500).uncompressed_s, 1 + 1e8 / 2e7, 1e-12);
  EXPECT_NEAR(corrected_times(costs, 500.001).uncompressed_s, 6, 1e-4);
}

// Above saturation the printed times are short by what the first k processes take.
TEST(Compression, PrintedFormulasFallBehindByTheFirstProcesses) {
  const CompressionCosts costs = example();
  for (const double processes : {2000.0, 20000.0}) {
    EXPECT_NEAR(corrected_times(costs, processes).uncompressed_s -
                    printed_times(costs, processes).uncompressed_s,
                costs.bytes / costs.process_rate, 1e-9);
    EXPECT_NEAR(corrected_times(costs, processes).pipelined_s,
                printed_times(costs, processes).pipelined_s, 1e-9);
  }
}

TEST(Compression, TimesRiseWithProcessesAndFallWithBandwidth) {
  double before_s = 0;
  for (double processes = 1; processes < 1e6; processes *= 1.5) {
    const CheckpointTimes times = corrected_times(example(), processes);
    EXPECT_GE(times.pipelined_s, before_s);
    EXPECT_LE(times.pipelined_s, times.sequential_s);
    before_s = times.pipelined_s;
    CompressionCosts faster = example();
    faster.file_system_rate *= 2;
    EXPECT_LE(corrected_times(faster, processes).uncompressed_s, times.uncompressed_s);
  }
}

}  // namespace
}  // namespace gpusnap::plan
