// SPDX-License-Identifier: Apache-2.0
//
// Reading ahead: whatever comes in between, each byte is handed out once and is right.
#include <atomic>
#include <functional>
#include <thread>

#include "counting_file_system.h"
#include "part_reader_support.h"
#include "tests/support/becomes.h"
#include "tiers/unit_reader.h"

namespace gpusnap::test {
namespace {

// Counts, and pretends that others want some. Takes and gives by one thread at a time.
class CountedBuffers final : public ReadBuffers {
 public:
  explicit CountedBuffers(uint32_t most) : most_(most) {}
  CountedBuffers(const CountedBuffers&) = delete;
  CountedBuffers& operator=(const CountedBuffers&) = delete;
  ~CountedBuffers() override { EXPECT_EQ(taken_, 0U) << "buffers that were not given back"; }

  size_t bytes() const override { return kReadSlotBytes; }
  // Beyond what may be kept for long there are two, as those of a pool that nobody may use up.
  Result<std::byte*> take(bool) override {
    if (taken_ >= most_ + 2) return nullptr;
    most_taken_ = std::max<uint32_t>(most_taken_, ++taken_);
    return allocate_pages(bytes()).value().release();
  }
  void give_back(std::byte* buffer) override {
    PageMemory(buffer).reset();
    --taken_;
  }
  int64_t spare() const override {
    return int64_t{most_} - int64_t{taken_} - wanted_by_others.load();
  }

  uint32_t taken() const { return taken_; }
  uint32_t most_taken() const { return most_taken_; }
  std::atomic<int64_t> wanted_by_others{0};

 private:
  const uint32_t most_;
  std::atomic<uint32_t> taken_{0};
  std::atomic<uint32_t> most_taken_{0};
};

class ReadAheadTest : public PartReaderTest {
 protected:
  struct Setting {
    uint32_t buffers = 0;
    std::optional<uint64_t> device{};  // its room, in bytes; none: there is none
    std::function<void()> before_run = [] {};
  };

  // Reads ahead on a thread until `meanwhile` returns, and then the rest.
  Status read_ahead(const Setting& setting,
                    const std::function<void(UnitReader&, CountedBuffers&)>& meanwhile) {
    CountedBuffers buffers(setting.buffers);
    near_ = {};
    const std::vector<PlacedExtent> pieces = pieces_of({{0, memory_.size()}});
    PartReaderOptions options;
    options.reads = 4;
    ReadUnits units = units_of(job_, {&manifest_, 1}, pieces, buffers.bytes(), &near_);
    units_ = units.units.size();
    counting_.reads_ended = 0;
    UnitReader reader(counting_, job_, options, buffers, std::move(units), &near_);
    MakeAheadFiles make;
    if (setting.device) {
      make = [&] {
        auto files = std::make_unique<AheadFiles>();
        files_.erase("/ssd/ahead");
        auto file = files_.create_bulk("/ssd/ahead", kRoomAhead);
        if (file.ok()) files->add(std::move(file.value()), *setting.device);
        return files;
      };
    }
    std::thread ahead([&] { reader.read_ahead(make); });
    meanwhile(reader, buffers);
    reader.stop_ahead();
    ahead.join();
    EXPECT_LE(buffers.most_taken(), setting.buffers) << "more than may be kept";
    setting.before_run();
    Taken taken(memory_);
    const Status status =
        reader.run([&](auto some, auto bytes) { return taken.take(some, bytes); }, {});
    if (status.ok()) taken.expect({{0, memory_.size()}});
    return status;
  }
  static void wait_until_kept(CountedBuffers& buffers, uint32_t kept) {
    EXPECT_TRUE(becomes([&] { return buffers.taken() >= kept; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the last may still be on its way
  }
  // All units have come from the store, and are in memory, on the device, or about to be.
  void wait_until_read() {
    EXPECT_TRUE(becomes([this] { return counting_.reads_ended >= units_; }));
  }
  bool has_device_file() const { return files_.exists("/ssd/ahead"); }

  void SetUp() override { ASSERT_TRUE(files_.make_folder("/ssd").ok()); }

  LocalChunks near_;
  CountingFileSystem counting_{files_};
  size_t units_ = 0;
};

TEST_F(ReadAheadTest, WhateverIsReadAheadAllComesBackOnce) {
  unsigned seed = 20;
  for (const char* how : {"off", "1", "auto"}) {
    save((2 << 20) + 12345, how, seed++);
    for (const Ending ending : {Ending::kAtOnce, Ending::kByThread}) {
      for (const uint32_t buffers : {0, 1, 4, 100}) {
        for (const std::optional<uint64_t> device :
             {std::optional<uint64_t>(), std::optional<uint64_t>(1 << 20),
              std::optional<uint64_t>(100 << 20)}) {
          files_.end_transfers(ending, seed);
          const auto pause = std::chrono::microseconds(random_() % 4000);
          const Status status = read_ahead(
              {buffers, device}, [&](auto&, auto&) { std::this_thread::sleep_for(pause); });
          ASSERT_TRUE(status.ok()) << how << " " << buffers << ": " << status.message();
        }
      }
    }
    for (const std::string& path : files_.paths()) files_.erase(path);
  }
}

// Units that have been read ahead are not read again: nothing is left of the store.
TEST_F(ReadAheadTest, NothingIsReadTwice) {
  for (const char* how : {"off", "1"}) {
    save(4 << 20, how, 31);
    const auto all_gone = [&] {
      for (const std::string& path : files_.paths()) {
        if (path.ends_with(".segment")) files_.erase(path);
      }
    };
    Setting in_memory{100};
    in_memory.before_run = all_gone;
    const auto wait = [this](auto&, auto&) { wait_until_read(); };
    const Status memory = read_ahead(in_memory, wait);
    EXPECT_TRUE(memory.ok()) << memory.message();
    EXPECT_GT(near_.counts.in_memory, 0U);
    EXPECT_EQ(near_.counts.near, 0U);

    save(4 << 20, how, 31);
    Setting on_device{4, 100 << 20};
    on_device.before_run = all_gone;
    const Status device = read_ahead(on_device, wait);
    EXPECT_TRUE(device.ok()) << device.message();
    EXPECT_GT(near_.counts.near, 0U);
  }
}

TEST_F(ReadAheadTest, SmallUnitsShareBuffers) {
  save(4 << 20, "off", 33);
  // One piece of 1000 bytes in each 40 parts: units of 16 KiB, much apart.
  std::vector<std::pair<uint64_t, uint64_t>> wanted;
  for (uint64_t at = 0; at + 1000 < memory_.size(); at += 160'000) {
    wanted.emplace_back(at, at + 1000);
  }
  CountedBuffers buffers(100);
  const std::vector<PlacedExtent> pieces = pieces_of(wanted);
  ReadUnits units = units_of(job_, {&manifest_, 1}, pieces, buffers.bytes(), nullptr);
  units_ = units.units.size();
  UnitReader reader(counting_, job_, {}, buffers, std::move(units), nullptr);
  std::thread ahead([&] { reader.read_ahead({}); });
  wait_until_read();
  reader.stop_ahead();
  ahead.join();
  EXPECT_LT(buffers.taken(), wanted.size() / 2);
  Taken taken(memory_);
  EXPECT_TRUE(reader.run([&](auto some, auto bytes) { return taken.take(some, bytes); }, {}).ok());
  taken.expect(wanted);
}

TEST_F(ReadAheadTest, WhatFailsAheadIsReadAgain) {
  save(4 << 20, "1", 34);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    files_.end_transfers(seed % 2 == 0 ? Ending::kAtOnce : Ending::kByThread, seed);
    files_.fail_by_chance({seed, 3, {device_failure(EIO), {Code::kDamaged, "it ends too early"}}});
    Setting setting{static_cast<uint32_t>(seed % 7)};
    if (seed % 3 != 0) setting.device = 100 << 20;
    setting.before_run = [this] { files_.heal(); };
    const Status status = read_ahead(
        setting, [](auto&, auto&) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    ASSERT_TRUE(status.ok()) << seed << ": " << status.message();
  }
}

TEST_F(ReadAheadTest, DamageCountsWhereItIsStillThere) {
  save(3 << 20, "off", 35);
  const auto wait = [this](UnitReader&, CountedBuffers& buffers) {
    EXPECT_TRUE(becomes([&] { return buffers.taken() > 0 || counting_.reads_ended > 0; }));
  };
  for (const uint32_t buffers : {1, 2, 100}) {
    const uint64_t byte = random_() % memory_.size();
    ASSERT_TRUE(damage(byte));
    const Status wrong = read_ahead({buffers}, wait);
    EXPECT_EQ(wrong.code(), Code::kDamaged);
    expect_message(wrong, "the checksum is wrong");
    Setting repaired{buffers};
    repaired.before_run = [&] { ASSERT_TRUE(damage(byte)); };  // as it was
    const Status right = read_ahead(repaired, wait);
    EXPECT_TRUE(right.ok()) << right.message();
  }
}

TEST_F(ReadAheadTest, WhatIsNotRightOnTheDeviceIsReadFromTheStore) {
  for (const char* how : {"off", "1"}) {
    save(4 << 20, how, 36);
    Setting setting{2, 100 << 20};
    setting.before_run = [&] {
      ASSERT_TRUE(has_device_file());
      const size_t size = files_.content("/ssd/ahead").size();
      ASSERT_GT(size, 0U);
      auto file = files_.continue_bulk("/ssd/ahead");
      for (size_t at = 0; at < size; at += 10'000) {
        const std::byte wrong = files_.content("/ssd/ahead").at(at) ^ std::byte{8};
        file.value()->write(at, {&wrong, 1}, [](const Status&) {});
      }
    };
    const Status status = read_ahead(
        setting, [](auto&, auto&) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GT(near_.counts.passed_over, 0U);
    for (const std::string& path : files_.paths()) files_.erase(path);
  }
}

TEST_F(ReadAheadTest, WhatOthersWantIsGivenBack) {
  save(16 << 20, "off", 37);
  uint32_t left = 0;
  const Status status = read_ahead({6}, [&](UnitReader&, CountedBuffers& buffers) {
    wait_until_kept(buffers, 6);
    buffers.wanted_by_others = 4;
    EXPECT_TRUE(becomes([&] { return buffers.taken() <= 2; }));
    buffers.wanted_by_others = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    left = buffers.taken();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_LE(left, 2U);
}

// Also while the first read hangs.
TEST_F(ReadAheadTest, StoppingWaitsForNoRead) {
  save(2 << 20, "off", 38);
  files_.end_transfers(Ending::kWhenAsked, 1);
  Setting setting{10};
  std::atomic<bool> ended{false};
  std::thread ender;
  setting.before_run = [&] {
    EXPECT_GT(files_.on_their_way(), 0U);  // it has ended, they have not
    ender = std::thread([&] {
      while (!ended) (void)files_.end_some(1);
    });
  };
  const Status status = read_ahead(setting, [&](auto&, auto&) {
    EXPECT_TRUE(becomes([&] { return files_.on_their_way() > 0; }));
  });
  ended = true;
  ender.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace gpusnap::test
