// Measuring on a device that is made up, whose time passes only while it is written to.
#include "tiers/placement/measure.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <climits>
#include <cmath>
#include <filesystem>
#include <functional>

#include "fault_file_system.h"
#include "tests/support/forwarding_file_system.h"

namespace gpusnap::test {
namespace {

// Each thread has a time of its own: writers that write at the same time do not add up, and no
// order of threads changes a result.
class OwnTime final : public Clock {
 public:
  int64_t now_ns() override { return now(); }
  static void pass(double seconds) { now() += std::llround(seconds * 1e9); }

 private:
  static int64_t& now() {
    thread_local int64_t now = 0;
    return now;
  }
};

// There before what refers to it.
struct Names {
  FaultFileSystem files_;
};

// A device that gives `total` bytes a second to as many writers as have files open; a sync takes
// `sync_seconds`.
class VirtualDevice final : Names, public ForwardingFileSystem {
 public:
  explicit VirtualDevice(std::function<double(double)> total)
      : ForwardingFileSystem(files_), total_(std::move(total)) {}

  double sync_seconds = 0;
  std::atomic<int> appends_until_full{INT_MAX};

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    auto file = files_.create(path);
    if (!file.ok()) return file.status();
    return std::unique_ptr<WritableFile>(std::make_unique<Writing>(*this));
  }

  FaultFileSystem& names() { return files_; }
  uint64_t bytes() const { return bytes_; }
  int most_open() const { return most_open_; }

 private:
  class Writing final : public WritableFile {
   public:
    explicit Writing(VirtualDevice& device) : device_(device) {
      device_.most_open_ = std::max(device_.most_open_.load(), ++device_.open_);
    }
    ~Writing() override { --device_.open_; }
    Status append(std::span<const std::byte> bytes) override {
      if (device_.appends_until_full-- <= 0) return {Code::kNoSpace, "the device is full"};
      device_.bytes_ += bytes.size();
      const double writers = device_.open_;
      OwnTime::pass(double(bytes.size()) * writers / device_.total_(writers));
      return {};
    }
    Status sync() override {
      OwnTime::pass(device_.sync_seconds);
      return {};
    }

   private:
    VirtualDevice& device_;
  };

  std::function<double(double)> total_;
  std::atomic<int> open_ = 0;
  std::atomic<int> most_open_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
};

double contended(double writers) {
  return 1e8 * writers / (1 + .08 * (writers - 1) + .0008 * writers * (writers - 1));
}

MeasureSettings settings_for(uint32_t most_writers) {
  MeasureSettings settings;
  settings.folder = "/ssd";
  settings.most_writers = most_writers;
  settings.bytes_per_writer = (5 << 20) + 7;
  return settings;
}

TEST(MeasureTest, LevelsAreEquallySpacedAndFewerThanATenth) {
  EXPECT_EQ(concurrency_levels(0), std::vector<uint32_t>({1}));
  EXPECT_EQ(concurrency_levels(1), std::vector<uint32_t>({1}));
  EXPECT_EQ(concurrency_levels(3), std::vector<uint32_t>({1, 2, 3}));
  EXPECT_EQ(concurrency_levels(16), std::vector<uint32_t>({1, 5, 9, 13, 17}));
  EXPECT_EQ(concurrency_levels(180).size(), 16U);
  for (uint32_t most = 1; most <= 2000; ++most) {
    const std::vector<uint32_t> levels = concurrency_levels(most);
    EXPECT_EQ(levels.front(), 1U);
    EXPECT_GE(levels.back(), most);
    EXPECT_TRUE(levels.size() == 1 || levels[levels.size() - 2] < most);
    for (size_t i = 2; i < levels.size(); ++i) {
      ASSERT_EQ(levels[i] - levels[i - 1], levels[1] - levels[0]);
    }
    EXPECT_TRUE(levels.size() <= 5 || levels.size() * 10 < most) << most;
  }
}

TEST(MeasureTest, GivesTheDevicesThroughputAtEachLevel) {
  VirtualDevice device(contended);
  OwnTime clock;
  std::vector<MeasureProgress> told;
  const auto samples = measure_throughput(device, clock, settings_for(60), [&](auto& progress) {
    told.push_back(progress);
    return true;
  });
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  const std::vector<uint32_t> levels = concurrency_levels(60);
  ASSERT_EQ(samples->size(), levels.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    const ThroughputSample& sample = samples.value()[i];
    EXPECT_EQ(sample.writers, levels[i]);
    EXPECT_NEAR(sample.bytes_per_second / contended(levels[i]), 1, 1e-6);
    bytes += levels[i] * settings_for(60).bytes_per_writer;
  }
  EXPECT_EQ(device.bytes(), bytes);
  EXPECT_EQ(device.most_open(), static_cast<int>(levels.back()));
  EXPECT_TRUE(device.names().paths().empty());

  ASSERT_EQ(told.size(), levels.size() + 1);
  EXPECT_EQ(told[0].last.writers, 0U);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].done, i);
    EXPECT_EQ(told[i].of, levels.size());
    EXPECT_TRUE(i == 0 || told[i].last == samples.value()[i - 1]);
  }
}

TEST(MeasureTest, TakesEveryNumberOfWritersWhereItIsAsked) {
  VirtualDevice device(contended);
  OwnTime clock;
  MeasureSettings settings = settings_for(23);
  settings.every_number = true;
  const auto samples = measure_throughput(device, clock, settings, {});
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 23U);
  for (uint32_t i = 0; i < 23; ++i) EXPECT_EQ(samples.value()[i].writers, i + 1);
}

TEST(MeasureTest, CountsTheTimeOfTheSync) {
  VirtualDevice device([](double) { return 1e9; });
  device.sync_seconds = 1;
  OwnTime clock;
  const auto samples = measure_throughput(device, clock, settings_for(1), {});
  ASSERT_TRUE(samples.ok());
  const double bytes = double(settings_for(1).bytes_per_writer);
  EXPECT_NEAR(samples.value()[0].bytes_per_second, bytes / (1 + bytes / 1e9), 1);
}

TEST(MeasureTest, KeepsToItsSpace) {
  VirtualDevice device(contended);
  OwnTime clock;
  MeasureSettings settings = settings_for(9);
  settings.most_bytes = 20 << 20;
  ASSERT_TRUE(measure_throughput(device, clock, settings, {}).ok());
  uint64_t bytes = 0;
  for (const uint64_t writers : concurrency_levels(9)) {
    bytes += writers * std::min(settings.bytes_per_writer, settings.most_bytes / writers);
  }
  EXPECT_EQ(device.bytes(), bytes);
  settings.most_bytes = 3;
  const Status none = measure_throughput(device, clock, settings, {}).status();
  EXPECT_EQ(none.code(), Code::kNoSpace);
  EXPECT_NE(none.message().find("/ssd"), std::string::npos);
  EXPECT_TRUE(device.names().paths().empty());
}

TEST(MeasureTest, AFullDeviceIsReportedAndLeftClean) {
  for (const int appends : {0, 1, 17, 60}) {
    VirtualDevice device(contended);
    device.appends_until_full = appends;
    OwnTime clock;
    const auto samples = measure_throughput(device, clock, settings_for(20), {});
    EXPECT_EQ(samples.status().message(), "the device is full");
    EXPECT_TRUE(device.names().paths().empty());
  }
}

TEST(MeasureTest, FailuresOfTheFileSystemAreReportedAndWhatTheyLeaveIsRemoved) {
  OwnTime clock;
  bool finished = false;
  for (size_t operation = 0; !finished; ++operation) {
    VirtualDevice device(contended);
    device.names().inject({operation, Status(Code::kIo, "the device is ill")});
    const auto samples = measure_throughput(device, clock, settings_for(2), {});
    finished = samples.ok();
    EXPECT_EQ(samples.status().message(), finished ? "" : "the device is ill");
    device.names().heal();
    EXPECT_TRUE(measure_throughput(device, clock, settings_for(2), {}).ok());
    EXPECT_TRUE(device.names().paths().empty());
    ASSERT_LT(operation, 100U);
  }
}

TEST(MeasureTest, StopsWhenItIsTold) {
  VirtualDevice device(contended);
  OwnTime clock;
  const auto stopped = measure_throughput(device, clock, settings_for(20),
                                          [](auto& progress) { return progress.done < 2; });
  EXPECT_EQ(stopped.status().code(), Code::kInvalid);
  EXPECT_EQ(device.most_open(), static_cast<int>(concurrency_levels(20)[1]));
  EXPECT_TRUE(device.names().paths().empty());
}

TEST(MeasureTest, LeftoversOfADeadOneAreRemoved) {
  VirtualDevice device(contended);
  device.names().put("/ssd/gpusnap-calibration/0", std::vector<std::byte>(10));
  device.names().put("/ssd/gpusnap-calibration/77", std::vector<std::byte>(10));
  device.names().put("/ssd/data", std::vector<std::byte>(10));
  OwnTime clock;
  ASSERT_TRUE(device.make_folder("/ssd/gpusnap-calibration").ok());
  const auto samples = measure_throughput(device, clock, settings_for(2), {});
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  EXPECT_EQ(device.names().paths(), std::vector<std::string>({"/ssd/data"}));
}

TEST(MeasureTest, OneAtATime) {
  VirtualDevice device(contended);
  OwnTime clock;
  Status second;
  ASSERT_TRUE(measure_throughput(device, clock, settings_for(1), [&](auto&) {
                second = measure_throughput(device, clock, settings_for(1), {}).status();
                return second.code() == Code::kBusy;
              }).ok());
  EXPECT_EQ(second.code(), Code::kBusy);
}

TEST(MeasureTest, RefusesSettingsThatMakeNoSense) {
  VirtualDevice device(contended);
  OwnTime clock;
  EXPECT_EQ(measure_throughput(device, clock, settings_for(0), {}).status().code(), Code::kInvalid);
  EXPECT_EQ(measure_throughput(device, clock, settings_for(5000), {}).status().code(),
            Code::kInvalid);
  MeasureSettings empty = settings_for(1);
  empty.bytes_per_writer = 0;
  EXPECT_EQ(measure_throughput(device, clock, empty, {}).status().code(), Code::kInvalid);
}

// The real file system and clock: whatever the speed, it is one, and nothing stays.
TEST(MeasureTest, WorksOnARealFolder) {
  std::string folder = (std::filesystem::temp_directory_path() / "gpusnap-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  MeasureSettings settings = settings_for(3);
  settings.folder = folder;
  settings.bytes_per_writer = 100'000;
  const auto samples = measure_throughput(posix_file_system(), monotonic_clock(), settings, {});
  EXPECT_TRUE(samples.ok()) << samples.status().message();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpusnap::test
