#include "tiers/segment_store.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/checksum.h"
#include "tiers/segment.h"

namespace gpusnap::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kBlock = 256 << 10;

// Every second block is compressible.
Bytes block_bytes(unsigned number, size_t size) {
  std::mt19937 random(number);
  Bytes bytes(size);
  std::ranges::generate(
      bytes, [&] { return static_cast<std::byte>(number % 2 == 0 ? random() % 3 : random()); });
  return bytes;
}

// A microsecond from look to look. Any thread.
struct SetClock final : Clock {
  int64_t now_ns() override { return now += 1000; }
  std::atomic<int64_t> now{0};
};

// Where the second piece of a block is in its range.
constexpr uint64_t kSecond = 10'000'000;

class SegmentStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<SegmentStore> start(SegmentStore::Options options = {},
                                      const char* compression = "off",
                                      Clock& clock = monotonic_clock()) {
    compression_ = std::make_unique<Compression>(parse_compression(compression).value(), clock);
    options.block_bytes = kBlock;
    auto store =
        SegmentStore::start(files_, "/store", {"job", "a", 7, 0}, options, *compression_, {});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store.value());
  }

  // Block `number`: two pieces of the range of that number, or one where it has a byte only.
  SegmentStore::Block block(unsigned number, size_t size = kBlock, Status found = {}) {
    blocks_.resize(std::max<size_t>(blocks_.size(), number + 1));
    blocks_[number] = std::make_unique<Bytes>(block_bytes(number, size));
    const size_t half = size / 2;
    ++held_;
    std::vector<Piece> pieces{{number, kSecond, size - half}};
    if (half > 0) pieces.insert(pieces.begin(), {number, 0, half});
    return {number,
            pieces,
            *blocks_[number],
            [found](std::span<const std::byte>) { return found; },
            [this](bool) { --held_; },
            nullptr};
  }
  void add(SegmentStore& store, unsigned number, size_t size = kBlock, Status found = {}) {
    store.add({block(number, size, std::move(found))});
  }
  void add_together(SegmentStore& store, const std::vector<unsigned>& numbers) {
    std::vector<SegmentStore::Block> blocks;
    for (const unsigned number : numbers) blocks.push_back(block(number));
    store.add(std::move(blocks));
  }

  // A store of 100 kB a second, so that all pays that shrinks.
  void make_slow(SetClock& clock) {
    compression_->rate.begun(8 << 20);
    clock.now += 80'000'000'000;
    compression_->rate.ended(8 << 20, true);
  }
  // Whether all of block `number` is compressed.
  static bool is_compressed(SegmentStore& store, unsigned number) {
    return std::ranges::all_of(store.extents(), [&](const Extent& extent) {
      return extent.range != number || extent.form != Form::kStored;
    });
  }

  // Whether all of block `number` comes back.
  void expect_back(SegmentStore& store, unsigned number) {
    const Bytes& saved = *blocks_[number];
    size_t bytes = 0;
    for (const Extent& extent : store.extents()) {
      if (extent.range != number) continue;
      const std::string path = "/store/" + store.segments()[extent.segment].file;
      const auto file = files_.open(path);
      ASSERT_TRUE(file.ok()) << file.status().message();
      EXPECT_EQ(file.value()->size(), store.segments()[extent.segment].size);
      Bytes back(extent.size);
      const Status read = reader_.read(*file.value(), path, extent, back);
      ASSERT_TRUE(read.ok()) << read.message();
      const size_t from =
          extent.offset < kSecond ? extent.offset : saved.size() / 2 + extent.offset - kSecond;
      EXPECT_TRUE(std::ranges::equal(back, std::span(saved).subspan(from, extent.size)));
      bytes += extent.size;
    }
    EXPECT_EQ(bytes, saved.size());
  }

  FaultFileSystem files_;
  std::unique_ptr<Compression> compression_;
  std::vector<std::unique_ptr<Bytes>> blocks_;
  std::atomic<int> held_{0};
  ExtentReader reader_;
};

TEST_F(SegmentStoreTest, KeepsWhatItIsGiven) {
  for (const char* compression : {"off", "1", "auto"}) {
    for (const uint32_t workers : {1U, 4U}) {
      SegmentStore::Options options;
      options.segment_bytes = 5 * kBlock;
      options.chunk_bytes = 4 * kBlock;
      options.workers = workers;
      options.writes = 3;
      const auto store = start(options, compression);
      for (unsigned i = 0; i < 22; ++i) add(*store, i, kBlock - (i % 3) * 1001);
      ASSERT_TRUE(store->finish().ok()) << store->status().message();
      EXPECT_EQ(held_, 0);
      EXPECT_GE(store->segments().size(), 4U);
      EXPECT_TRUE(std::ranges::is_sorted(store->segments(), {}, [](const SegmentRef& ref) {
        return std::stoi(ref.file.substr(5));
      }));
      for (unsigned i = 0; i < 22; ++i) expect_back(*store, i);
      store->remove();
      EXPECT_TRUE(files_.paths().empty());
    }
  }
}

TEST_F(SegmentStoreTest, CompressesWhatShrinks) {
  const auto store = start({}, "1");
  for (unsigned i = 0; i < 8; ++i) add(*store, 2 * i);
  ASSERT_TRUE(store->finish().ok());
  uint64_t stored = 0;
  for (const Extent& extent : store->extents()) {
    EXPECT_NE(extent.form, Form::kStored);
    stored += extent.within == 0 ? extent.stored() : 0;
  }
  EXPECT_LT(stored, 8 * kBlock / 2);
  for (unsigned i = 0; i < 8; ++i) expect_back(*store, 2 * i);
}

// The first block is what it is; the others are not like it.
TEST_F(SegmentStoreTest, BlocksThatComeTogetherAreSampledTogether) {
  const std::vector<unsigned> numbers{1, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28};
  for (const uint32_t workers : {1U, 3U}) {
    SegmentStore::Options options;
    options.workers = workers;
    SetClock clock;
    const auto store = start(options, "auto", clock);
    make_slow(clock);
    add_together(*store, numbers);
    ASSERT_TRUE(store->finish().ok());
    for (const unsigned number : numbers) {
      EXPECT_EQ(is_compressed(*store, number), number != 1) << number;
      expect_back(*store, number);
    }
    store->remove();
  }
}

// Each block is decided by itself, whatever a sample says.
TEST_F(SegmentStoreTest, ALevelIsForEveryBlockThatShrinks) {
  for (const bool is_slow : {false, true}) {
    SetClock clock;
    const auto store = start({}, "3", clock);
    if (is_slow) make_slow(clock);
    const std::vector<unsigned> numbers{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 2, 21, 23, 25, 4, 27};
    add_together(*store, numbers);
    ASSERT_TRUE(store->finish().ok());
    for (const unsigned number : numbers) {
      EXPECT_EQ(is_compressed(*store, number), number % 2 == 0) << number;
      expect_back(*store, number);
    }
    store->remove();
  }
}

// Blocks of an increment of a few zones.
TEST_F(SegmentStoreTest, SmallBlocksAreCompressedToo) {
  for (const char* compression : {"1", "auto"}) {
    for (const size_t size : {255 << 10, 64 << 10, 16 << 10, 4096, 1000, 100, 1}) {
      for (const unsigned number : {0U, 1U}) {
        SetClock clock;
        const auto store = start({}, compression, clock);
        make_slow(clock);
        add(*store, number, size);
        ASSERT_TRUE(store->finish().ok());
        const bool shrinks = number == 0 && size > 1;
        EXPECT_EQ(is_compressed(*store, number), shrinks) << compression << " " << size;
        expect_back(*store, number);
        store->remove();
      }
    }
  }
}

TEST_F(SegmentStoreTest, BlocksThatAreSampledWhenItEndsAreReleased) {
  for (unsigned when = 0; when < 20; ++when) {
    SetClock clock;
    auto store = start({}, "1", clock);
    make_slow(clock);
    std::thread other([&] {
      for (unsigned i = 0; i < when * 5; ++i) std::this_thread::yield();
      store->abandon();
    });
    add_together(*store, {0, 2, 4, 6});
    other.join();
    EXPECT_FALSE(store->finish().ok());
    EXPECT_EQ(held_, 0);
    store->remove();
  }
}

// So that a restore reads nothing of a piece but what no newer checkpoint has.
TEST_F(SegmentStoreTest, CanBeReadInParts) {
  const uint64_t most = Extent::kPartBytes;
  const uint64_t half = 5 * most / 4;
  for (const char* compression : {"off", "1"}) {
    const auto store = start({}, compression);
    add(*store, 0, 2 * half);
    ASSERT_TRUE(store->finish().ok());
    expect_back(*store, 0);
    ASSERT_EQ(store->extents().size(), 2U);
    for (const Extent& extent : store->extents()) {
      EXPECT_EQ(extent.size, half);
      if (extent.form != Form::kStored) {
        EXPECT_EQ(extent.part_count(), 1U);
        continue;
      }
      // They end where a multiple of that is in their range: there zones end, too.
      const uint64_t first = most - extent.offset % most;
      ASSERT_EQ(extent.part_count(), 2U);
      EXPECT_EQ(extent.part(0).begin, 0U);
      EXPECT_EQ(extent.part(0).end, first);
      EXPECT_EQ(extent.part(1).begin, first);
      EXPECT_EQ(extent.part(1).end, half);
      EXPECT_EQ(extent.part_at(first - 1), 0U);
      EXPECT_EQ(extent.part_at(first), 1U);
    }
    store->remove();
  }
}

TEST_F(SegmentStoreTest, WithoutBlocksHasNoSegments) {
  const auto store = start();
  EXPECT_TRUE(store->finish().ok());
  EXPECT_TRUE(store->segments().empty() && files_.paths().empty());
}

TEST_F(SegmentStoreTest, WritesEndInAnyOrder) {
  const uint64_t seeds = std::getenv("GPUSNAP_SOAK") != nullptr ? 100 : 8;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    files_.end_transfers(Ending::kByThread, seed);
    SegmentStore::Options options;
    options.workers = 2;
    options.writes = 4;
    options.segment_bytes = 3 * kBlock;
    const auto store = start(options, seed % 2 == 0 ? "1" : "off");
    for (unsigned i = 0; i < 16; ++i) add(*store, i);
    ASSERT_TRUE(store->finish().ok()) << store->status().message();
    for (unsigned i = 0; i < 16; ++i) expect_back(*store, i);
    store->remove();
    EXPECT_EQ(held_, 0);
    files_.end_transfers(Ending::kAtOnce);
  }
}

TEST_F(SegmentStoreTest, EveryFailureIsReportedAndNothingIsHeld) {
  const auto run = [&] {
    SegmentStore::Options options;
    options.segment_bytes = 3 * kBlock;
    std::atomic<int> failures{0};
    options.on_failure = [&](const Status& why) { failures += why.ok() ? 0 : 1; };
    auto store = start(options, "1");
    for (unsigned i = 0; i < 8; ++i) add(*store, i);
    const Status status = store->finish();
    EXPECT_EQ(failures, status.ok() ? 0 : 1);
    store->remove();
    store.reset();
    EXPECT_EQ(held_, 0);
    return status;
  };
  files_.heal();
  ASSERT_TRUE(run().ok());
  const size_t operations = files_.operations();
  ASSERT_GT(operations, 10U);
  size_t failed = 0;
  for (size_t operation = 0; operation < operations; ++operation) {
    files_.inject({operation, Status(Code::kNoSpace, "cannot write x: disk full"), false, false});
    const Status status = run();
    failed += status.ok() ? 0 : 1;
    EXPECT_TRUE(status.ok() || status.code() == Code::kNoSpace) << status.message();
    files_.heal();
    for (const std::string& path : files_.paths()) files_.erase(path);
  }
  // All but those that remove the files at the end.
  EXPECT_GT(failed, operations / 2);
}

TEST_F(SegmentStoreTest, ABlockThatIsRefusedEndsIt) {
  const auto store = start();
  add(*store, 0);
  add(*store, 1, kBlock, Status(Code::kTorn, "torn"));
  for (unsigned i = 2; i < 50; ++i) add(*store, i);
  EXPECT_EQ(store->finish().code(), Code::kTorn);
  EXPECT_EQ(held_, 0);
}

TEST_F(SegmentStoreTest, PiecesAreTheBlocksBytes) {
  const Bytes bytes(100);
  for (const std::vector<Piece>& pieces : {std::vector<Piece>{},
                                           {{0, 0, 99}},
                                           {{0, 0, 101}},
                                           {{0, 0, 0}, {0, 0, 100}},
                                           {{0, 0, 60}, {0, 60, UINT64_MAX - 10}}}) {
    const auto store = start();
    ++held_;
    store->add({{0, pieces, bytes, {}, [this](bool) { --held_; }, nullptr}});
    EXPECT_EQ(store->finish().code(), Code::kInvalid);
    EXPECT_EQ(held_, 0);
  }
}

TEST_F(SegmentStoreTest, IsAbandonedAtAnyMoment) {
  const unsigned moments = std::getenv("GPUSNAP_SOAK") != nullptr ? 100 : 8;
  for (unsigned when = 0; when < moments; ++when) {
    files_.end_transfers(Ending::kByThread, when);
    auto store = start({}, "1");
    std::thread other([&] {
      for (unsigned i = 0; i < when * 5; ++i) std::this_thread::yield();
      store->abandon();
    });
    for (unsigned i = 0; i < 20; ++i) add(*store, i);
    other.join();
    EXPECT_FALSE(store->finish().ok());
    store->remove();
    EXPECT_EQ(held_, 0);
    EXPECT_TRUE(files_.paths().empty());
    store.reset();
    files_.end_transfers(Ending::kAtOnce);
  }
}

TEST_F(SegmentStoreTest, WaitsForWhatIsOnItsWayBeforeItGoes) {
  files_.end_transfers(Ending::kByThread, 1);
  {
    const auto store = start();
    for (unsigned i = 0; i < 20; ++i) add(*store, i);
  }
  EXPECT_EQ(held_, 0);
  EXPECT_EQ(files_.on_their_way(), 0U);
  files_.end_transfers(Ending::kAtOnce);
}

struct Hands final : Clock {
  int64_t now_ns() override { return now; }
  int64_t now = 0;
};

TEST(StoreRate, IsOfTheTimeInWhichAnythingWasOnItsWay) {
  Hands clock;
  StoreRate rate(clock);
  EXPECT_EQ(rate.bytes_per_second(), 0);
  const auto write = [&](uint64_t bytes, int64_t ns) {
    rate.begun(bytes);
    clock.now += ns;
    rate.ended(bytes, true);
  };
  write(1 << 20, 1'000'000);
  EXPECT_EQ(rate.bytes_per_second(), 0) << "too little to tell";
  write(15 << 20, 15'000'000);
  EXPECT_DOUBLE_EQ(rate.bytes_per_second(), (1 << 20) * 1e3);
  clock.now += 1'000'000'000;  // nothing to do
  EXPECT_DOUBLE_EQ(rate.bytes_per_second(), (1 << 20) * 1e3);
  // Two at a time count once.
  rate.begun(16 << 20);
  rate.begun(16 << 20);
  clock.now += 16'000'000;
  rate.ended(16 << 20, true);
  rate.ended(16 << 20, true);
  EXPECT_DOUBLE_EQ(rate.bytes_per_second(), (48 << 20) / 0.032);
  for (int i = 0; i < 60; ++i) write(32 << 20, 320'000'000);
  EXPECT_NEAR(rate.bytes_per_second(), 100 << 20, 3 << 20) << "what is old is forgotten";
}

// All four are on their way for the time that all of them take.
TEST(StoreRate, TheFirstOfManyThatEndSayLittle) {
  Hands clock;
  StoreRate rate(clock);
  for (int i = 0; i < 4; ++i) rate.begun(16 << 20);
  clock.now += 64'000'000;
  rate.ended(16 << 20, true);
  EXPECT_EQ(rate.bytes_per_second(), 0);
  rate.ended(16 << 20, true);
  rate.ended(16 << 20, true);
  rate.ended(16 << 20, true);
  EXPECT_DOUBLE_EQ(rate.bytes_per_second(), (1 << 20) * 1e3);
  for (int i = 0; i < 16; ++i) rate.begun(16 << 20);
  EXPECT_DOUBLE_EQ(rate.bytes_per_second(), (1 << 20) * 1e3) << "what is known stays known";
}

TEST(StoreRate, IsSharedByThoseWhoUseIt) {
  Hands clock;
  StoreRate rate(clock);
  rate.enter();
  EXPECT_EQ(rate.share(), 0);
  rate.begun(16 << 20);
  clock.now += 16'000'000;
  rate.ended(16 << 20, true);
  EXPECT_DOUBLE_EQ(rate.share(), (1 << 20) * 1e3);
  rate.enter();
  EXPECT_DOUBLE_EQ(rate.share(), (1 << 20) * 5e2);
  rate.leave();
  rate.leave();
  EXPECT_DOUBLE_EQ(rate.share(), (1 << 20) * 1e3) << "whoever comes next has it alone";
}

TEST(StoreRate, SaysForHowLongItHasEnoughToDo) {
  Hands clock;
  StoreRate rate(clock);
  EXPECT_EQ(rate.busy_seconds(), 0);
  rate.begun(20'000'000);
  EXPECT_DOUBLE_EQ(rate.busy_seconds(), 0.01) << "at 2 GB/s, for all that is known";
  clock.now += 20'000'000;
  EXPECT_DOUBLE_EQ(rate.busy_seconds(), 0.02) << "it is not faster than 1 GB/s";
  rate.ended(20'000'000, false);
  EXPECT_EQ(rate.busy_seconds(), 0);
  EXPECT_EQ(rate.bytes_per_second(), 0) << "what failed says nothing";
  rate.begun(20'000'000);
  clock.now += 60'000'000;
  rate.ended(20'000'000, true);
  rate.begun(10'000'000);
  EXPECT_DOUBLE_EQ(rate.busy_seconds(), 10'000'000 / rate.bytes_per_second());
}

}  // namespace
}  // namespace gpusnap::test
