// SPDX-License-Identifier: Apache-2.0
//
// Restores from what a backend has not brought to its store yet, at every stage of that.
#include "tiers/daemon/pending_part.h"

#include <stdlib.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "backend_support.h"
#include "tests/support/becomes.h"
#include "tests/support/forwarding_file_system.h"
#include "tiers/backend/restore_reader.h"
#include "tiers/part_reader.h"
#include "watched_file_system.h"

namespace gpusnap::test {
namespace {

constexpr const char* kArea = "/area";

// The staging memory as a file besides the others.
class AreaFileSystem final : public ForwardingFileSystem {
 public:
  AreaFileSystem(FileSystem& files, StagingMemory& memory)
      : ForwardingFileSystem(files), memory_(memory) {}
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override {
    if (path != kArea) return ForwardingFileSystem::open_bulk(path);
    return std::unique_ptr<BulkFile>(std::make_unique<Area>(*this));
  }
  std::function<void()> before_read;  // of the area

 private:
  class Area final : public BulkFile {
   public:
    explicit Area(AreaFileSystem& files) : files_(files) {}
    uint64_t size() const override { return start() + files_.memory_.header().bytes; }
    void write(uint64_t, std::span<const std::byte>, Done done) override {
      done({Code::kInvalid, "nobody writes there so"});
    }
    void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
      if (files_.before_read) files_.before_read();
      const std::byte* const first = files_.memory_.bytes(0).data();
      std::memcpy(bytes.data(), first + (offset - start()), bytes.size());
      done({});
    }
    Status sync() override { return {}; }

   private:
    // Where the slots' bytes begin.
    uint64_t start() const {
      return PoolLayout{static_cast<uint32_t>(files_.memory_.slots().size()),
                        files_.memory_.bytes(0).size()}
          .bytes_at();
    }
    AreaFileSystem& files_;
  };

  StagingMemory& memory_;
};

// Lets the threads of a backend change files as often as it is told.
class SteppedFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  void go_on(uint64_t changes) {
    const std::lock_guard lock(mutex_);
    left_ = changes;
    changed_.notify_all();
  }
  // Whether it waits to be told again, or comes to that within a moment.
  bool is_waiting() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 1ms, [this] { return left_ == 0 && waiting_ > 0; });
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    step();
    auto file = ForwardingFileSystem::create(path);
    if (!file.ok()) return file;
    return std::unique_ptr<WritableFile>(std::make_unique<Written>(*this, std::move(file.value())));
  }
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    step();
    auto file = ForwardingFileSystem::create_bulk(path, reserve);
    if (!file.ok()) return file;
    return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(*this, std::move(file.value())));
  }
  Status make_folder(const std::string& folder) override {
    step();
    return ForwardingFileSystem::make_folder(folder);
  }
  Status rename(const std::string& from, const std::string& to) override {
    step();
    return ForwardingFileSystem::rename(from, to);
  }
  Status sync_folder(const std::string& folder) override {
    step();
    return ForwardingFileSystem::sync_folder(folder);
  }
  Status remove(const std::string& path) override {
    step();
    return ForwardingFileSystem::remove(path);
  }

 private:
  class Written final : public WritableFile {
   public:
    Written(SteppedFileSystem& files, std::unique_ptr<WritableFile> file)
        : files_(files), file_(std::move(file)) {}
    Status append(std::span<const std::byte> bytes) override {
      files_.step();
      return file_->append(bytes);
    }
    Status sync() override {
      files_.step();
      return file_->sync();
    }

   private:
    SteppedFileSystem& files_;
    const std::unique_ptr<WritableFile> file_;
  };
  class Bulk final : public BulkFile {
   public:
    Bulk(SteppedFileSystem& files, std::unique_ptr<BulkFile> file)
        : files_(files), file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      files_.step();
      file_->write(offset, bytes, std::move(done));
    }
    void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
      file_->read(offset, bytes, std::move(done));
    }
    Status sync() override {
      files_.step();
      return file_->sync();
    }

   private:
    SteppedFileSystem& files_;
    const std::unique_ptr<BulkFile> file_;
  };

  void step() {
    if (std::this_thread::get_id() == test_) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return left_ > 0; });
    --waiting_;
    if (left_ != kWithoutLimit) --left_;
  }

 public:
  static constexpr uint64_t kWithoutLimit = UINT64_MAX;

 private:
  const std::thread::id test_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t left_ = 0;
  int waiting_ = 0;
};

class PendingTest : public SsdTest {
 protected:
  PendingTest() {
    through_ = &stepped_;
    (void)memory_->grow(24);
  }

  void start_backend(PlacementPolicy policy) {
    Backend::Options options;
    options.flushes = 2;
    if (policy != PlacementPolicy::kCacheOnly) {
      options.ssd = {{"/ssd", 100 * 3 * slot_bytes()}};
      options.cache_bytes = 3 * slot_bytes();
    }
    options.policy = policy;
    options.name = "node";
    BackendTest::start(std::move(options));
  }
  void finish() {
    stepped_.go_on(SteppedFileSystem::kWithoutLimit);
    drain();
  }
  // The program has handed over epoch and ended.
  void hand_over(uint64_t epoch, uint64_t parent = 0,
                 CompressionSetting compression = {CompressionSetting::Mode::kOff, 1}) {
    Saver saver(*memory_, "/store", job_);
    saver.compression = compression;
    if (journal_) saver.open_journal();
    (void)saver.save(epoch, parent);
    saver.go();
  }
  void commit(uint64_t epoch) {
    start_backend(PlacementPolicy::kCacheOnly);
    stepped_.go_on(SteppedFileSystem::kWithoutLimit);
    Saver saver(*memory_, "/store", job_);
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    saver.go();
    drain();
    stepped_.go_on(0);
  }
  // The backend takes so many steps, or has come to its end.
  void steps(uint64_t count) {
    stepped_.go_on(count);
    EXPECT_TRUE(comes_true([&] {
      return stepped_.is_waiting() ||
             (backend_->counters().checkpoints == 0 && look_at(*memory_).parts.empty());
    }));
  }

  std::optional<InFlight::Part> part(uint64_t epoch) {
    const auto parts = pending_parts(*memory_, "/store", job_.name, epoch);
    return parts.empty() ? std::nullopt : std::optional(parts.front());
  }
  PendingPlaces places() { return {memory_.get(), kArea, {{"/ssd", 64 << 20}}}; }

  LocatePart locate(uint64_t epoch) {
    return [this, epoch](const IsNeeded& is_needed) -> Result<LocatedPart> {
      ++located_;
      const auto found = part(epoch);
      if (!found) return Status(Code::kNotFound, "it is not there");
      auto located = locate_pending(area_, places(), *found, is_needed);
      if (located.ok() && after_locate_) after_locate_();
      return located;
    };
  }
  std::unique_ptr<RestoreReader> make_reader(uint64_t epoch) {
    store_ = std::move(Store::open(files_, "/store", false).value());
    RestoreReader::Request request;
    request.checkpoint.job = job_.name;
    request.checkpoint.epoch = epoch;
    request.checkpoint.id = job_.name + "@" + std::to_string(epoch);
    request.checkpoint.ranks = {manifest_of(job_, epoch)};
    request.ssd = {{"/ssd", 64 << 20}};
    request.run = "new1";
    request.locate = locate(epoch);
    return std::make_unique<RestoreReader>(area_, *store_, std::move(request),
                                           std::make_unique<PlainReadBuffers>(16));
  }
  // Each byte comes once and is right.
  Status read(RestoreReader& reader, uint64_t epoch) {
    const auto contents = reader.open();
    if (!contents.ok()) return contents.status();
    std::vector<std::vector<std::byte>>& memory = memory_of_[epoch];
    std::vector<std::string> seen;  // a letter for each byte of a range
    for (uint32_t range = 0; range < job_.ranges.size(); ++range) {
      if (memory.size() == range) memory.push_back(memory_at(epoch, range, job_.ranges[range]));
      seen.emplace_back(job_.ranges[range], ' ');
    }
    Status status = reader.read_all(
        [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) -> Status {
          for (const ReadPiece& piece : pieces) {
            const std::byte* const right = &memory.at(piece.range).at(piece.offset);
            EXPECT_EQ(std::memcmp(&bytes[piece.at], right, piece.size), 0) << piece.range;
            const auto here = std::span(seen.at(piece.range)).subspan(piece.offset, piece.size);
            EXPECT_EQ(std::ranges::count(here, 'x'), 0) << "range " << piece.range;
            std::ranges::fill(here, 'x');
          }
          return {};
        });
    for (size_t range = 0; status.ok() && range < seen.size(); ++range) {
      EXPECT_EQ(std::ranges::count(seen[range], ' '), 0) << range;
    }
    return status;
  }
  void expect_restored(uint64_t epoch) {
    auto reader = make_reader(epoch);
    const Status status = read(*reader, epoch);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Result<Manifest> manifest(uint64_t epoch) {
    const auto found = part(epoch);
    if (!found) return Status(Code::kNotFound, "it is not there");
    return read_pending(area_, places(), *found);
  }
  // Other programs take what is free, and have other bytes there.
  void scribble() {
    for (uint32_t i = 0; i < memory_->backed(); ++i) {
      SlotEntry& entry = memory_->slots()[i];
      if (!entry.word.take(SlotState::kClaimed, 0)) continue;
      std::ranges::fill(memory_->bytes(i), std::byte{0x5a});
      entry.word.free(entry.word.load());
    }
  }

  SteppedFileSystem stepped_{files_};
  AreaFileSystem area_{files_, *memory_};
  std::unique_ptr<Store> store_;
  bool journal_ = false;
  std::function<void()> after_locate_;
  int located_ = 0;
  std::map<uint64_t, std::vector<std::vector<std::byte>>> memory_of_;  // by epoch
};

TEST_F(PendingTest, AllOfItInMemoryAndNobodyServes) {
  hand_over(3);
  const auto found = manifest(3);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->epoch, 3U);
  EXPECT_TRUE(found->extents.empty());
  auto reader = make_reader(3);
  const Status status = read(*reader, 3);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(reader->is_pending());
  EXPECT_EQ(located_, 1);
  EXPECT_EQ(newest_in_flight(*memory_, "/store", "demo", true), 3U);
  EXPECT_EQ(newest_in_flight(*memory_, "/elsewhere", "demo", true), 0U);
}

// A run that begins just then takes a number of its own.
TEST_F(PendingTest, APartThatIsCommittedWhileItIsLookedForCounts) {
  through_ = &files_;
  hand_over(3);
  int steps = 0;
  WatchedFileSystem files(files_, [&] {
    if (++steps != 2) return;  // when the store has been read for the first time
    start();
    drain();
  });
  const auto store = std::move(Store::open(files, "/store", false).value());
  const auto free = free_epoch(*memory_, *store, "demo");
  ASSERT_TRUE(free.ok()) << free.status().message();
  EXPECT_EQ(free.value(), 4U);
  EXPECT_TRUE(files_.exists("/store/demo/e3/r0.manifest"));
  EXPECT_EQ(free_epoch(*memory_, *store, "demo").value(), 4U);
}

// With nothing in between: the shared memory that programs and backends have, and its file.
TEST_F(PendingTest, IsReadFromTheFileOfSharedMemory) {
  const std::string name = "gpusnap-test-" + std::to_string(getpid());
  auto served = StagingMemory::serve(name, {kSlot, 24 * kSlot});
  ASSERT_TRUE(served.ok()) << served.status().message();
  memory_ = std::move(served.value());
  (void)memory_->grow(24);
  std::string folder = testing::TempDir() + "gpusnap-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Saver saver(*memory_, folder, job_);
  (void)saver.save(3);
  saver.go();
  const auto parts = pending_parts(*memory_, folder, job_.name, 3);
  ASSERT_EQ(parts.size(), 1U);
  store_ = std::move(Store::open(posix_file_system(), folder, false).value());
  RestoreReader::Request request;
  request.checkpoint.job = job_.name;
  request.checkpoint.id = job_.name + "@3";
  request.locate = [&](const IsNeeded& is_needed) {
    return locate_pending(posix_file_system(), {memory_.get(), area_file(name), {}}, parts.front(),
                          is_needed);
  };
  RestoreReader reader(posix_file_system(), *store_, std::move(request),
                       std::make_unique<PlainReadBuffers>(16));
  const Status status = read(reader, 3);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(reader.is_pending());
  memory_->remove();
  std::filesystem::remove_all(folder);
}

TEST_F(PendingTest, WhatIsNotHandedOverAsAWholeIsNotRestored) {
  Saver saver(*memory_, "/store", job_);
  const uint32_t stream = saver.fill(3);
  EXPECT_FALSE(part(3));
  EXPECT_EQ(newest_in_flight(*memory_, "/store", "demo", false), 3U);
  EXPECT_EQ(newest_in_flight(*memory_, "/store", "demo", true), 0U);
  saver.client().seal(stream);
  EXPECT_TRUE(manifest(3).ok());
  saver.client().abandon(stream);
  EXPECT_FALSE(part(3));
}

TEST_F(PendingTest, ALostSlotIsFound) {
  hand_over(3);
  SlotEntry& entry = memory_->slots()[4];
  ASSERT_EQ(entry.word.load().state, SlotState::kFilled);
  entry.word.free(entry.word.load());
  EXPECT_EQ(manifest(3).status().code(), Code::kBusy);
  EXPECT_FALSE(read(*make_reader(3), 3).ok());
}

// Nothing but memory tells which of its bytes are right: what changes before it is located is not
// found, what changes after that is.
TEST_F(PendingTest, DamageAfterItWasLocatedIsFound) {
  hand_over(3);
  after_locate_ = [this] {
    if (located_ == 1) memory_->bytes(0)[7] ^= std::byte{1};
  };
  const Status status = read(*make_reader(3), 3);
  EXPECT_EQ(status.code(), Code::kDamaged) << status.message();
  EXPECT_EQ(located_, 2);
  EXPECT_TRUE(part(3)) << "it is as whole as it was";
}

TEST_F(PendingTest, TheJournalHasToBeDurable) {
  journal_ = true;
  hand_over(3);
  EXPECT_EQ(manifest(3).status().code(), Code::kBusy);
  start_backend(PlacementPolicy::kCacheOnly);
  bool seen = false;
  for (int i = 0; i < 200 && part(3); ++i) {
    steps(1);
    const auto now = manifest(3);
    if (!now.ok()) continue;
    seen = true;
    const auto file = files_.open("/store/demo/" + now->journal.at(0).file);
    ASSERT_TRUE(file.ok());
    EXPECT_GE(file.value()->size(), now->journal.at(0).file_bytes);
  }
  EXPECT_TRUE(seen);
  finish();
}

struct Course {
  PlacementPolicy policy;
  CompressionSetting::Mode compression;
  bool increment;
};

class PendingStages : public PendingTest, public ::testing::WithParamInterface<Course> {
 protected:
  uint64_t begin() {
    const Course& course = GetParam();
    if (course.increment) commit(1);
    hand_over(2, course.increment ? 1 : 0, {course.compression, 1});
    start_backend(course.policy);
    return 2;
  }
};

// After each step of the backend it is there, as a whole, on its way or in the store. A short run
// leaves some steps out, others each time.
TEST_P(PendingStages, CanBeRestoredAtEachStep) {
  const uint64_t epoch = begin();
  const uint64_t most = std::getenv("GPUSNAP_SOAK") != nullptr ? 1 : 4;
  std::mt19937_64 random(::testing::UnitTest::GetInstance()->random_seed());
  int pending = 0;
  for (int i = 0; i < 1000 && part(epoch); ++i) {
    if (const auto now = manifest(epoch); now.ok()) ++pending;
    expect_restored(epoch);
    scribble();
    steps(1 + random() % most);
  }
  EXPECT_GT(pending, 2);
  finish();
  expect_back(epoch);
  expect_restored(epoch);
}

// Wherever the backend goes on between a look and a read, the bytes are right.
TEST_P(PendingStages, CanBeRestoredWhileItMovesOn) {
  const uint64_t epoch = begin();
  std::minstd_rand random(7);
  for (int i = 0; i < 100 && part(epoch); ++i) {
    after_locate_ = [&] {
      steps(random() % 4);
      scribble();
    };
    int reads = 0;
    area_.before_read = [&] {
      if (++reads % 3 != 0) return;
      steps(random() % 2);
    };
    expect_restored(epoch);
    after_locate_ = {};
    area_.before_read = {};
    steps(1);
  }
  finish();
  expect_restored(epoch);
}

// A backend that is killed, and one that goes on.
TEST_P(PendingStages, CanBeRestoredBetweenTwoBackends) {
  const uint64_t epoch = begin();
  for (int i = 0; i < 12 && part(epoch); ++i) {
    steps(i + 1);
    stepped_.go_on(SteppedFileSystem::kWithoutLimit);
    stop();
    stepped_.go_on(0);
    if (!part(epoch)) break;
    expect_restored(epoch);
    scribble();
    start_backend(GetParam().policy);
  }
  if (backend_) finish();
  expect_restored(epoch);
}

INSTANTIATE_TEST_SUITE_P(
    All, PendingStages,
    ::testing::Values(Course{PlacementPolicy::kCacheOnly, CompressionSetting::Mode::kOff, false},
                      Course{PlacementPolicy::kSsdOnly, CompressionSetting::Mode::kOff, false},
                      Course{PlacementPolicy::kSsdOnly, CompressionSetting::Mode::kOff, true},
                      Course{PlacementPolicy::kHybridNaive, CompressionSetting::Mode::kOff, false},
                      Course{PlacementPolicy::kSsdOnly, CompressionSetting::Mode::kLevel, false},
                      Course{PlacementPolicy::kCacheOnly, CompressionSetting::Mode::kLevel, true}));

}  // namespace
}  // namespace gpusnap::test
