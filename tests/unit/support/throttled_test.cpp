// By a clock that goes on only while somebody sleeps.
#include "throttled_file_system.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "fault_file_system.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class FakePace final : public Pace {
 public:
  int64_t now_ns() override { return now_; }
  void sleep_until(int64_t ns) override {
    now_ = std::max(now_.load(), ns);
    ++sleeps_;
  }
  double seconds() const { return double(now_) / 1e9; }
  int sleeps() const { return sleeps_; }

 private:
  std::atomic<int64_t> now_{1'000'000'000};
  std::atomic<int> sleeps_{0};
};

// Nobody wakes up before open().
class GatePace final : public Pace {
 public:
  int64_t now_ns() override { return 0; }
  void sleep_until(int64_t) override {
    std::unique_lock lock(mutex_);
    ++asleep_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for(int asleep) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asleep_ >= asleep; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int asleep_ = 0;
  bool open_ = false;
};

ThrottledFolder slow(double bytes_per_second) {
  return {"/slow", {{{1, bytes_per_second}}, {}}, {{{1, bytes_per_second}}, {}}};
}

FaultFileSystem& with_folders(FaultFileSystem& files) {
  for (const char* folder : {"/slow", "/slow/fast", "/slower", "/other"}) {
    EXPECT_TRUE(files.make_folder(folder).ok());
  }
  return files;
}

TEST(DeviceRates, AreOnALineBetweenTheirPoints) {
  const DeviceRates rates{{{1, 100}, {5, 300}, {9, 100}}, {}};
  EXPECT_EQ(rates.total(0, 0), 100);
  EXPECT_EQ(rates.total(1, 0), 100);
  EXPECT_EQ(rates.total(2, 0), 150);
  EXPECT_EQ(rates.total(5, 0), 300);
  EXPECT_EQ(rates.total(7, 0), 200);
  EXPECT_EQ(rates.total(50, 0), 100);
  EXPECT_EQ(DeviceRates().total(3, 0), 0);
}

TEST(DeviceRates, ChangeAsTheScheduleSays) {
  const DeviceRates rates{{{1, 100}}, {{2, 0.25}, {5, 2}}};
  EXPECT_EQ(rates.total(1, 1.9), 100);
  EXPECT_EQ(rates.total(1, 2), 25);
  EXPECT_EQ(rates.total(1, 4.9), 25);
  EXPECT_EQ(rates.total(1, 60), 200);
}

TEST(ThrottledFileSystem, TakesTheTimeOfTheDevice) {
  FaultFileSystem files;
  FakePace pace;
  ThrottledFileSystem throttled(with_folders(files), {slow(4 * kMiB)}, pace);
  const std::vector<std::byte> bytes(8 * kMiB, std::byte{7});
  const double before = pace.seconds();
  {
    auto file = throttled.create("/slow/a");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value()->append(bytes).ok());
    ASSERT_TRUE(file.value()->sync().ok());
  }
  EXPECT_NEAR(pace.seconds() - before, 2, 0.003);
  auto read = throttled.open("/slow/a");
  ASSERT_TRUE(read.ok());
  std::vector<std::byte> back(bytes.size());
  ASSERT_TRUE(read.value()->read(0, back).ok());
  EXPECT_EQ(back, bytes);
  EXPECT_NEAR(pace.seconds() - before, 4, 0.006);
  EXPECT_EQ(throttled.moved(0).written, bytes.size());
  EXPECT_EQ(throttled.moved(0).read, bytes.size());
  EXPECT_EQ(throttled.moved(0).most_files, 1U);
}

TEST(ThrottledFileSystem, FollowsTheScheduleWhileItWrites) {
  FaultFileSystem files;
  FakePace pace;
  ThrottledFolder folder = slow(8 * kMiB);
  folder.writes.schedule = {{1, 0.25}, {2, 1}};
  ThrottledFileSystem throttled(with_folders(files), {folder}, pace);
  auto file = throttled.create("/slow/a");
  ASSERT_TRUE(file.ok());
  throttled.start();
  const double before = pace.seconds();
  // A second at 8, one at 2, one at 8 MiB a second.
  ASSERT_TRUE(file.value()->append(std::vector<std::byte>(18 * kMiB)).ok());
  EXPECT_NEAR(pace.seconds() - before, 3, 0.2);
}

TEST(ThrottledFileSystem, LeavesOtherFoldersAlone) {
  FaultFileSystem files;
  FakePace pace;
  ThrottledFileSystem throttled(with_folders(files), {slow(kMiB), {"/slow/fast", {}, {}}}, pace);
  for (const char* path : {"/slower/a", "/other/a", "/slow/fast/a"}) {
    auto file = throttled.create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value()->append(std::vector<std::byte>(kMiB)).ok());
  }
  EXPECT_EQ(pace.sleeps(), 0);
  EXPECT_EQ(throttled.moved(0).written, 0U);
  EXPECT_EQ(throttled.moved(1).written, kMiB);
}

TEST(ThrottledFileSystem, SharesTheDeviceAmongFilesThatWriteAtTheSameTime) {
  FaultFileSystem files;
  GatePace pace;
  ThrottledFileSystem throttled(with_folders(files), {slow(kMiB)}, pace);
  const std::vector<std::byte> bytes(kMiB);
  std::vector<std::unique_ptr<BulkFile>> open;
  for (const char* path : {"/slow/a", "/slow/b", "/slow/c"}) {
    open.push_back(std::move(throttled.create_bulk(path, 0).value()));
    open.back()->write(0, bytes, [](const Status& status) { EXPECT_TRUE(status.ok()); });
    // More on its way in one file does not make it more files.
    open.back()->write(kMiB, bytes, [](const Status& status) { EXPECT_TRUE(status.ok()); });
  }
  pace.wait_for(3);
  EXPECT_EQ(throttled.moved(0).most_files, 3U);
  pace.open();
  for (const auto& file : open) EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(throttled.moved(0).written, 6 * kMiB);
  EXPECT_EQ(throttled.moved(0).most_files, 3U);
}

TEST(ThrottledFileSystem, EndsBulkWritesInTheirOrderAndAllBeforeTheFileGoes) {
  FaultFileSystem files;
  FakePace pace;
  ThrottledFileSystem throttled(with_folders(files), {slow(64 * kMiB)}, pace);
  const std::vector<std::byte> bytes(kMiB, std::byte{3});
  std::mutex mutex;
  std::vector<int> ended;
  {
    auto file = throttled.create_bulk("/slow/a", 0);
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < 20; ++i) {
      file.value()->write(uint64_t(19 - i) * kMiB, bytes, [&, i](const Status& status) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(status.ok());
        ended.push_back(i);
      });
    }
    EXPECT_EQ(file.value()->size(), 20 * kMiB);
  }
  ASSERT_EQ(ended.size(), 20U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ended[size_t(i)], i);
  auto file = throttled.open_bulk("/slow/a");
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> back(kMiB);
  file.value()->read(7 * kMiB, back, [](const Status& status) { EXPECT_TRUE(status.ok()); });
  file.value().reset();
  EXPECT_EQ(back, bytes);
}

TEST(ThrottledFileSystem, PassesFailuresOn) {
  FaultFileSystem files;
  FakePace pace;
  ThrottledFileSystem throttled(with_folders(files), {slow(kMiB)}, pace);
  EXPECT_EQ(throttled.open("/slow/none").status().code(), Code::kNotFound);
  EXPECT_EQ(throttled.open_bulk("/slow/none").status().code(), Code::kNotFound);
  ASSERT_TRUE(throttled.create("/slow/a").ok());
  EXPECT_FALSE(throttled.create("/slow/a").ok());
  EXPECT_FALSE(throttled.create_bulk("/slow/a", 0).ok());
}

}  // namespace
}  // namespace gpusnap::test
