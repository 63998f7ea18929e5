#include "tiers/placement/throughput_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tiers/placement/measure.h"

namespace gpusnap {
namespace {

using Samples = std::vector<ThroughputSample>;

struct Device {
  const char* name;
  std::function<double(double)> total;
  double most_mean_error;
};

// Kinds of devices: saturating soon or late, suffering from contention, with a best concurrency
// (the paper's SSD has it at 16), with a buffer that only so many writers fit into, and flat.
const Device kDevices[] = {
    {"saturates soon", [](double n) { return 700e6 * n / (n + 2); }, 0.01},
    {"saturates late", [](double n) { return 700e6 * n / (n + 10); }, 0.005},
    {"contention", [](double n) { return 1e8 * n / (1 + .08 * (n - 1) + .0008 * n * (n - 1)); },
     0.005},
    {"best at 16",
     [](double n) { return 4e8 * n / 16 * std::exp(1 - n / 16) + 2.5e8 * (1 - std::exp(-n / 6)); },
     0.005},
    {"falls off",
     [](double n) { return (n < 80 ? 7e8 : 4e8 + 3e8 * std::exp((80 - n) / 10)) * n / (n + 1); },
     0.015},
    {"flat", [](double) { return 5e8; }, 1e-9},
};

Samples samples_of(const Device& device, const std::vector<uint32_t>& levels) {
  Samples samples;
  for (const uint32_t writers : levels) samples.push_back({writers, device.total(writers)});
  return samples;
}

std::vector<uint32_t> all_up_to(uint32_t most) {
  std::vector<uint32_t> levels;
  for (uint32_t writers = 1; writers <= most; ++writers) levels.push_back(writers);
  return levels;
}

// The paper's figure 3: predictions from a tenth of the measurements against all of them.
TEST(ThroughputModelTest, PredictsEveryConcurrencyFromATenthOfThem) {
  for (const Device& device : kDevices) {
    const auto model = ThroughputModel::fit(samples_of(device, concurrency_levels(180)));
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto error = model->error_against(samples_of(device, all_up_to(180)));
    EXPECT_LE(error.mean, device.most_mean_error) << device.name;
    EXPECT_LE(error.most, 0.2) << device.name << " at " << error.most_at;
  }
}

TEST(ThroughputModelTest, OneOfManyGetsItsShare) {
  const auto model = ThroughputModel::fit(samples_of(kDevices[0], concurrency_levels(64))).value();
  for (uint32_t writers = 1; writers < 100; ++writers) {
    EXPECT_DOUBLE_EQ(model.of_one(writers) * writers, model.total(writers));
  }
  EXPECT_EQ(model.of_one(0), model.of_one(1));
  EXPECT_EQ(model.total(70), model.total(1000));
  EXPECT_GT(model.of_one(70), model.of_one(1000));
  EXPECT_GT(model.of_one(UINT32_MAX), 0);
}

TEST(ThroughputModelTest, StaysAboveZeroWhereTheSplineDoesNot) {
  const Samples steep = {{1, 1e9}, {2, 1e9}, {3, 1}, {4, 1}, {5, 1}, {6, 1}};
  const auto model = ThroughputModel::fit(steep).value();
  for (uint32_t writers = 1; writers <= 6; ++writers) EXPECT_GE(model.of_one(writers), 1.0 / 6);
  const Samples gap = {{1, 1e9}, {11, 1e9}, {21, 10}, {31, 10}, {41, 10}};
  const auto swinging = ThroughputModel::fit(gap).value();
  for (uint32_t writers = 1; writers <= 50; ++writers)
    EXPECT_GE(swinging.total(writers), 10 - 1e-6);
}

TEST(ThroughputModelTest, TellsItsError) {
  const Samples flat = {{1, 100}, {2, 100}, {3, 100}};
  const auto model = ThroughputModel::fit(flat).value();
  const Samples measured = {{1, 100}, {2, 80}, {3, 200}, {4, 0}};
  const auto error = model.error_against(measured);
  EXPECT_NEAR(error.mean, (0 + 0.25 + 0.5) / 3, 1e-12);
  EXPECT_NEAR(error.most, 0.5, 1e-12);
  EXPECT_EQ(error.most_at, 3U);
  EXPECT_EQ(model.error_against({}).mean, 0);
}

TEST(ThroughputModelTest, RefusesSamplesThatAreNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Samples wrong[] = {{},
                           {{0, 1e6}},
                           {{kMostModelWriters + 1, 1e6}},
                           {{1, 0}},
                           {{1, -5}},
                           {{1, nan}},
                           {{1, 1e16}},
                           {{1, 1e6}, {1, 1e6}},
                           {{2, 1e6}, {1, 1e6}},
                           {{1, 1e6}, {2, 1e6}, {4, 1e6}},
                           {{3, 1e6}, {2, 1e6}, {1, 1e6}}};
  for (const Samples& samples : wrong) {
    const auto model = ThroughputModel::fit(samples);
    EXPECT_EQ(model.status().code(), Code::kInvalid);
    EXPECT_TRUE(model.status().message().starts_with("cannot model a device's throughput: "));
  }
}

}  // namespace
}  // namespace gpusnap
