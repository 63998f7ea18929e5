// SPDX-License-Identifier: Apache-2.0
//
// The rate of flushes and their best number are kept beside a device's calibration for the next
// backend.
#include <gtest/gtest.h>

#include <ctime>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/flush_record.h"

namespace gpusnap::test {
namespace kept_average {

// A device that is there; what is in it is made up.
constexpr const char* kSsd = "/tmp";
constexpr double kMemoryRate = 7e9;

class KeptAverage : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = identify_device(kSsd);
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = device.value();
    ASSERT_TRUE(files_.make_folder(kSsd).ok());
  }
  void calibrate() {
    const Calibration calibration{
        device_, std::time(nullptr), 4096, kMemoryRate, {{1, 1e6}, {2, 2e6}, {3, 2e6}}};
    const Status saved = save_calibration(files_, calibration_folder(kSsd), calibration);
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  std::unique_ptr<LocalTiers> open() {
    return LocalTiers::open(files_, {{kSsd, 1 << 20}}, "node", PlacementPolicy::kHybridOpt, 4096,
                            [](const std::string&) {});
  }

  FaultFileSystem files_;
  DeviceIdentity device_;
};

TEST_F(KeptAverage, IsThereForTheNextOne) {
  calibrate();
  EXPECT_FALSE(open()->earlier_flushes());
  EXPECT_EQ(open()->memory_bytes_per_second(), kMemoryRate);
  EXPECT_TRUE(open()->keep_flushes(123e6, 9).ok());
  EXPECT_EQ(open()->earlier_flushes()->bytes_per_second, 123e6);
  EXPECT_EQ(open()->earlier_flushes()->flushes, 9U);
}

TEST_F(KeptAverage, ABackendThatFindsNoNumberKeepsTheOneItHad) {
  calibrate();
  EXPECT_TRUE(open()->keep_flushes(123e6, 9).ok());
  EXPECT_TRUE(open()->keep_flushes(99e6, 0).ok());
  EXPECT_EQ(open()->earlier_flushes()->bytes_per_second, 99e6);
  EXPECT_EQ(open()->earlier_flushes()->flushes, 9U);
}

TEST_F(KeptAverage, WithoutACalibrationNothingIsKept) {
  EXPECT_TRUE(open()->keep_flushes(123e6, 9).ok());
  EXPECT_FALSE(open()->earlier_flushes());
  EXPECT_FALSE(open()->memory_bytes_per_second());
  EXPECT_TRUE(files_.paths().empty());
}

TEST_F(KeptAverage, WhatCannotBeUsedIsAsIfItWereNotThere) {
  calibrate();
  FlushRecord old{device_, 1, 123e6, 9};
  ASSERT_TRUE(save_flush_record(files_, calibration_folder(kSsd), old).ok());
  EXPECT_FALSE(open()->earlier_flushes());
  EXPECT_TRUE(open()->keep_flushes(99e6, 9).ok());
  EXPECT_EQ(open()->earlier_flushes()->bytes_per_second, 99e6);
}

TEST_F(KeptAverage, ABackendBeginsWithIt) {
  calibrate();
  LocalBackend::Options options;
  options.backend.ssd = {{kSsd, 1 << 20}};
  options.backend.chunk_bytes = 4096;
  options.backend.name = "node";
  {
    LocalBackend backend(files_, options);
    const Status taken = take_checkpoint(backend, {}, 1, nullptr);
    ASSERT_TRUE(taken.ok()) << taken.message();
    backend.drain();
  }
  const auto kept = open()->earlier_flushes();
  ASSERT_TRUE(kept);
  const StagingArea area;
  const auto next = Backend::make(files_, *area.memory, options.backend);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_DOUBLE_EQ(next.value()->counters().flush_bandwidth, kept->bytes_per_second);
}

// The number too, as far as its settings allow.
TEST_F(KeptAverage, ABackendBeginsWithTheNumberOfFlushes) {
  calibrate();
  EXPECT_TRUE(open()->keep_flushes(123e6, 3).ok());
  Backend::Options options;
  options.ssd = {{kSsd, 1 << 20}};
  options.chunk_bytes = 4096;
  options.name = "node";
  const StagingArea area;
  for (const std::optional<uint32_t> set : {std::optional<uint32_t>(), std::optional(7U)}) {
    options.flushes = set;
    const auto backend = Backend::make(files_, *area.memory, options);
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    EXPECT_EQ(backend.value()->counters().flushes, set.value_or(3));
  }
}

}  // namespace kept_average
}  // namespace gpusnap::test
