// Measuring on a device that is made up, whose time passes only while it is written to.
#include "tiers/placement/measure.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

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

// A device that gives `total` bytes a second to as many writers as have files open.
class VirtualDevice final : Names, public ForwardingFileSystem {
 public:
  explicit VirtualDevice(std::function<double(double)> total)
      : ForwardingFileSystem(files_), total_(std::move(total)) {}

  std::atomic<int> writes_until_full{INT_MAX};

  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    auto file = files_.create_bulk(path, reserve);
    if (!file.ok()) return file.status();
    return std::unique_ptr<BulkFile>(std::make_unique<Writing>(*this));
  }

  FaultFileSystem& names() { return files_; }
  uint64_t bytes() const { return bytes_; }
  int most_open() const { return most_open_; }
  uint64_t most_bytes() const { return most_bytes_; }  // at a time

 private:
  class Writing final : public BulkFile {
   public:
    explicit Writing(VirtualDevice& device) : device_(device) {
      device_.most_open_ = std::max(device_.most_open_.load(), ++device_.open_);
    }
    ~Writing() override { --device_.open_; }
    uint64_t size() const override { return size_; }
    void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      if (device_.writes_until_full-- <= 0) return done({Code::kNoSpace, "the device is full"});
      EXPECT_EQ(offset, size_);
      size_ += bytes.size();
      device_.bytes_ += bytes.size();
      device_.most_bytes_ = std::max<uint64_t>(device_.most_bytes_, bytes.size());
      const double writers = device_.open_;
      OwnTime::pass(double(bytes.size()) * writers / device_.total_(writers));
      done({});
    }
    void read(uint64_t, std::span<std::byte>, Done done) override { done({}); }
    Status sync() override {
      ADD_FAILURE() << "chunks are not synced";
      return {};
    }

   private:
    uint64_t size_ = 0;
    VirtualDevice& device_;
  };

  std::function<double(double)> total_;
  std::atomic<int> open_ = 0;
  std::atomic<int> most_open_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> most_bytes_ = 0;
};

double contended(double writers) {
  return 1e8 * writers / (1 + .08 * (writers - 1) + .0008 * writers * (writers - 1));
}

MeasureSettings settings_for(uint32_t most_writers) {
  MeasureSettings settings;
  settings.folder = "/ssd";
  settings.most_writers = most_writers;
  settings.bytes_per_writer = (5 << 20) + 7;
  settings.slot_bytes = 256 << 10;
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

// Ends a write when it is told to.
class HeldDevice final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    auto file = ForwardingFileSystem::create_bulk(path, reserve);
    if (!file.ok()) return file;
    return std::unique_ptr<BulkFile>(std::make_unique<Writing>(*this));
  }
  // By the oldest that are on their way, one after the other, until `all` were begun and ended.
  void end_writes(size_t all) {
    for (size_t ended = 0; ended < all;) {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return !held_.empty(); });
      // As many as there may be, unless there are no more.
      const size_t may_be = std::min<size_t>(kInFlight, all - ended);
      begun_.wait(lock, [&] { return held_.size() == may_be; });
      BulkFile::Done done = std::move(held_.front());
      held_.pop_front();
      lock.unlock();
      done({});
      ++ended;
    }
  }
  static constexpr uint32_t kInFlight = 3;

 private:
  class Writing final : public BulkFile {
   public:
    explicit Writing(HeldDevice& device) : device_(device) {}
    uint64_t size() const override { return 0; }
    void write(uint64_t, std::span<const std::byte>, Done done) override {
      const std::lock_guard lock(device_.mutex_);
      device_.held_.push_back(std::move(done));
      device_.begun_.notify_all();
    }
    void read(uint64_t, std::span<std::byte>, Done done) override { done({}); }
    Status sync() override { return {}; }

   private:
    HeldDevice& device_;
  };

  std::mutex mutex_;
  std::condition_variable begun_;
  std::deque<BulkFile::Done> held_;
};

TEST(MeasureTest, WritesSlotsOfWhichSomeAreOnTheirWay) {
  FaultFileSystem names;
  HeldDevice device(names);
  std::thread ends([&] { device.end_writes(7); });
  MeasureSettings settings = settings_for(1);
  settings.bytes_per_writer = 7 * settings.slot_bytes;
  settings.in_flight = HeldDevice::kInFlight;
  const auto samples = measure_throughput(device, monotonic_clock(), settings, {});
  ends.join();
  EXPECT_TRUE(samples.ok()) << samples.status().message();
}

TEST(MeasureTest, SlotsAreAsLargeAsTheyAreSaidToBe) {
  VirtualDevice device(contended);
  OwnTime clock;
  ASSERT_TRUE(measure_throughput(device, clock, settings_for(2), {}).ok());
  EXPECT_EQ(device.most_bytes(), settings_for(2).slot_bytes);
}

constexpr uint32_t kMostForetold = 180;  // as in the VeloC paper

// How far the model that a calibration gives is from the device, on average over all numbers of
// writers. A sample is wrong by up to `noise` of itself, either way.
double mean_error(const std::function<double(double)>& total, double noise, unsigned seed) {
  VirtualDevice device([&](double writers) {
    // By the number of writers, as all of them have to be given the same.
    std::mt19937 random(1000 * seed + static_cast<unsigned>(writers));
    return total(writers) * std::uniform_real_distribution(1 - noise, 1 + noise)(random);
  });
  OwnTime clock;
  const auto samples = measure_throughput(device, clock, settings_for(kMostForetold), {});
  EXPECT_TRUE(samples.ok()) << samples.status().message();
  EXPECT_LT(samples->size() * 10, kMostForetold);
  std::vector<ThroughputSample> all;
  for (uint32_t writers = 1; writers <= kMostForetold; ++writers) {
    all.push_back({writers, total(writers)});
  }
  return ThroughputModel::fit(samples.value())->error_against(all).mean;
}

double flat(double) {
  return 7e8;
}

double saturating(double writers) {
  return 2e9 * writers / (writers + 10);
}

double rising_then_falling(double writers) {
  return writers < 60 ? 7e8 * std::pow(writers / 60, .7) : 7e8 / (1 + .012 * (writers - 60));
}

double sharply_bent(double writers) {
  return std::min(writers / 16, 1.0) * 7e8;
}

// As a device with a few queues, each of which takes so many writers.
double in_steps(double writers) {
  return 2e8 * (1 + std::floor((writers - 1) / 45));
}

struct NamedDevice {
  const char* name;
  double (*total)(double);
};

// The mean error that few samples may have, and by how much noise moves each of them at most.
constexpr double kAllowedError = 0.05, kNoise = 0.05;

TEST(MeasureTest, FewSamplesForetellTheOthers) {
  const NamedDevice devices[] = {{"contended", contended},
                                 {"flat", flat},
                                 {"saturating", saturating},
                                 {"rising, then falling", rising_then_falling},
                                 {"sharply bent", sharply_bent}};
  for (const NamedDevice& device : devices) {
    EXPECT_LE(mean_error(device.total, 0, 0), kAllowedError) << device.name << ", without noise";
    EXPECT_LE(mean_error(device.total, kNoise, 1), kAllowedError) << device.name << ", with noise";
  }
}

// No curve through few samples has steps, so there is less room for noise: with as much as above,
// some seeds miss what is allowed.
TEST(MeasureTest, FewSamplesForetellStepsWhereNothingDisturbs) {
  EXPECT_LE(mean_error(in_steps, 0, 0), kAllowedError);
}

// A throughput that differs from one number of writers to the next cannot be foretold by few.
TEST(MeasureTest, FewSamplesDoNotForetellWhatHasNoShape) {
  const auto alternating = [](double writers) { return std::fmod(writers, 2) == 0 ? 1e9 : 5e8; };
  EXPECT_GT(mean_error(alternating, 0, 0), 0.2);
}

TEST(MeasureTest, MemoryHasASpeed) {
  for (const uint64_t slot : {uint64_t{4096}, uint64_t{1} << 20}) {
    const auto rate = measure_memory(monotonic_clock(), slot);
    ASSERT_TRUE(rate.ok()) << rate.status().message();
    EXPECT_GT(rate.value(), 1e6);
  }
  OwnTime still;
  EXPECT_EQ(measure_memory(still, 1 << 20).status().code(), Code::kIo);
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
  for (const int writes : {0, 1, 17, 60}) {
    VirtualDevice device(contended);
    device.writes_until_full = writes;
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
