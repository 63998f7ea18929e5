// SPDX-License-Identifier: Apache-2.0
//
// A restore's reader on a store that a backend has written, with a local tier.
#include "tiers/backend/restore_reader.h"

#include <climits>
#include <cstring>

#include "backend_support.h"
#include "counting_file_system.h"
#include "tests/support/becomes.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/page_memory.h"
#include "tiers/part_reader.h"

namespace gpusnap::test {
namespace {

// Counts what is created, and can fail every change from a given one on, as if the process had been
// killed there.
class NamesFileSystem final : public CountingFileSystem {
 public:
  explicit NamesFileSystem(FaultFileSystem& files) : CountingFileSystem(files), files_(files) {}
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    if (is_killed()) return kKilled;
    created.push_back(path);
    return CountingFileSystem::create_bulk(path, reserve);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    if (is_killed()) return kKilled;
    auto locked = CountingFileSystem::lock(path);
    // A lock is a file that stays until it is removed.
    if (locked.ok()) files_.put(path, {});
    return locked;
  }
  Status make_folder(const std::string& folder) override {
    return is_killed() ? kKilled : CountingFileSystem::make_folder(folder);
  }
  Status remove(const std::string& path) override {
    return is_killed() ? kKilled : CountingFileSystem::remove(path);
  }
  Status remove_folder(const std::string& folder) override {
    return is_killed() ? kKilled : CountingFileSystem::remove_folder(folder);
  }
  std::vector<std::string> created;
  std::atomic<int> changes_left{INT_MAX};  // below 0 when one has failed

 private:
  FaultFileSystem& files_;
  bool is_killed() { return changes_left.fetch_sub(1) <= 0; }
  const Status kKilled{Code::kIo, "killed"};
};

// Buffers of 64 KiB. Takes and gives by one thread at a time.
class SmallBuffers final : public ReadBuffers {
 public:
  explicit SmallBuffers(uint32_t most) : most_(most) {}
  size_t bytes() const override { return 64 << 10; }
  Result<std::byte*> take(bool wait) override {
    if (taken_ >= most_ && !wait) return nullptr;
    ++taken_;
    return allocate_pages(bytes()).value().release();
  }
  void give_back(std::byte* buffer) override {
    PageMemory(buffer).reset();
    --taken_;
  }
  int64_t spare() const override { return int64_t{most_} - int64_t{taken_}; }

 private:
  const uint32_t most_;
  uint32_t taken_ = 0;
};

class RestoreReaderTest : public SsdTest {
 protected:
  void save(uint64_t epoch) {
    start(PlacementPolicy::kCacheOnly);
    Saver saver(*memory_, "/store", job_);
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    saver.go();
    drain();
    for (const std::string& path : on_ssd()) files_.erase(path);
  }

  std::unique_ptr<RestoreReader> make_reader(uint64_t epoch, uint32_t buffers) {
    store_ = std::move(Store::open(names_, "/store", false).value());
    names_.reads_ended = 0;
    RestoreReader::Request request;
    request.checkpoint = store_->find("demo@" + std::to_string(epoch)).value();
    request.ssd = {{"/ssd", 64 << 20}};
    request.run = "abc123";
    return std::make_unique<RestoreReader>(names_, *store_, std::move(request),
                                           std::make_unique<SmallBuffers>(buffers));
  }
  Status read(RestoreReader& reader, uint64_t epoch) {
    const auto contents = reader.open();
    if (!contents.ok()) return contents.status();
    uint64_t bytes_read = 0;
    std::vector<std::vector<std::byte>> memory;  // by range
    for (uint32_t range = 0; range < job_.ranges.size(); ++range) {
      memory.push_back(memory_at(epoch, range, job_.ranges[range]));
    }
    Status status = reader.read_all([&](std::span<const ReadPiece> pieces,
                                        std::span<const std::byte> bytes) {
      for (const ReadPiece& piece : pieces) {
        EXPECT_EQ(
            std::memcmp(&bytes[piece.at], &memory.at(piece.range).at(piece.offset), piece.size), 0);
        bytes_read += piece.size;
      }
      return Status();
    });
    uint64_t all = 0;
    for (const size_t size : job_.ranges) all += size;
    if (status.ok()) {
      EXPECT_EQ(bytes_read, all);
    }
    return status;
  }
  // All that it reads of the checkpoint has come, or it has been killed.
  void wait_until_read(uint64_t epoch) {
    const auto info = store_->find("demo@" + std::to_string(epoch));
    const auto contents = store_->resolve(info.value(), 0);
    const JobPlace job{store_->job_folder("demo"), "demo"};
    const size_t units =
        units_of(job, contents->chain, contents->pieces, SmallBuffers(0).bytes(), nullptr)
            .units.size();
    EXPECT_TRUE(becomes([&] { return names_.changes_left < 0 || names_.reads_ended >= units; }));
  }
  void remove_segments() {
    for (const std::string& path : files_.paths()) {
      if (path.ends_with(".segment")) files_.erase(path);
    }
  }

  NamesFileSystem names_{files_};
  std::unique_ptr<Store> store_;
};

TEST_F(RestoreReaderTest, ReadsAllWithAndWithoutReadingAhead) {
  save(1);
  auto plain = make_reader(1, 3);
  EXPECT_TRUE(read(*plain, 1).ok());
  EXPECT_EQ(plain->counts().in_memory, 0U);

  auto ahead = make_reader(1, 100);
  ahead->begin();
  wait_until_read(1);
  remove_segments();
  const Status status = read(*ahead, 1);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(ahead->counts().in_memory, 0U);
  EXPECT_TRUE(names_.created.empty());  // memory held all
}

TEST_F(RestoreReaderTest, WhatMemoryDoesNotHoldIsOnTheDeviceWithoutAName) {
  job_.ranges = {2 << 20, 777};
  save(1);
  auto ahead = make_reader(1, 2);
  ahead->begin();
  wait_until_read(1);
  EXPECT_TRUE(on_ssd().empty());
  EXPECT_FALSE(names_.created.empty());
  remove_segments();
  const Status status = read(*ahead, 1);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(ahead->counts().near, 0U);
  const auto left = files_.entries("/ssd");
  EXPECT_TRUE(left.ok() && left->empty());
}

TEST_F(RestoreReaderTest, NothingOfAKilledOneIsLeftAfterTheNextBackend) {
  job_.ranges = {1 << 20};
  save(1);
  bool was_killed = true;
  int changes = 0;
  for (; was_killed && changes < 100; ++changes) {
    SCOPED_TRACE(changes);
    auto ahead = make_reader(1, 1);
    names_.changes_left = changes;
    ahead->begin();
    wait_until_read(1);
    const Status status = read(*ahead, 1);
    EXPECT_TRUE(status.ok()) << status.message();
    ahead.reset();
    was_killed = names_.changes_left < 0;
    names_.changes_left = INT_MAX;
    start();
    drain();
    const auto left = files_.entries("/ssd");
    EXPECT_TRUE(left.ok() && left->empty());
  }
  EXPECT_FALSE(was_killed);
  EXPECT_GT(changes, 5);  // a lock, a file and their folders
}

TEST_F(RestoreReaderTest, EndsAtAnyMoment) {
  save(1);
  for (int i = 0; i < 20; ++i) {
    auto ahead = make_reader(1, static_cast<uint32_t>(i));
    ahead->begin();
    std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
    if (i % 2 == 0) ahead->stop();
    if (i % 3 == 0) {
      EXPECT_TRUE(read(*ahead, 1).ok());
    }
  }
}

TEST_F(RestoreReaderTest, WhatIsWrongIsToldWhereItIsNeeded) {
  save(1);
  auto ahead = make_reader(1, 100);
  remove_segments();
  ahead->begin();
  EXPECT_EQ(read(*ahead, 1).code(), Code::kNotFound);
}

}  // namespace
}  // namespace gpusnap::test
