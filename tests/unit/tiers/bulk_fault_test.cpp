// Bulk files of the file system that goes wrong: what later tests of whole stores stand on.
#include <cerrno>
#include <set>
#include <thread>

#include "bulk_support.h"
#include "fault_file_system.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kBlock = FaultFile::kBlock;

class BulkFaultTest : public ::testing::Test {
 protected:
  BulkFaultTest() { EXPECT_TRUE(files_.make_folder("/d").ok()); }
  std::unique_ptr<BulkFile> create(const std::string& path = "/d/file") {
    auto file = files_.create_bulk(path, 0);
    EXPECT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE(files_.sync_folder("/d").ok());
    return std::move(file.value());
  }
  FaultFileSystem files_;
};

TEST_F(BulkFaultTest, WritesAndReadsInOrdersThatTheSeedDecides) {
  std::set<std::vector<size_t>> orders;
  for (const uint64_t seed : {1, 2, 3, 1, 2, 3}) {
    FaultFileSystem files;
    ASSERT_TRUE(files.make_folder("/d").ok());
    files.end_transfers(Ending::kWhenAsked, seed);
    const auto file = files.create_bulk("/d/file", 0);
    const Bytes bytes = noise(10'000, 1);
    Outcomes writes;
    for (uint64_t at = 0; at < 10'000; at += 1000) {
      file.value()->write(at, std::span(bytes).subspan(at, 1000), writes.next());
    }
    EXPECT_EQ(file.value()->size(), 10'000U);
    EXPECT_EQ(writes.ended(), 0U);
    EXPECT_EQ(files.end_some(4), 4U);
    EXPECT_EQ(writes.ended(), 4U);
    EXPECT_EQ(files.on_their_way(), 6U);
    ASSERT_TRUE(file.value()->sync().ok());
    EXPECT_EQ(writes.ended(), 10U);
    orders.insert(writes.order());
    EXPECT_EQ(files.content("/d/file"), bytes);
    Bytes back(10'000);
    Outcomes reads;
    file.value()->read(0, back, reads.next());
    EXPECT_EQ(files.end_some(100), 1U);
    EXPECT_TRUE(reads.wait().ok());
    EXPECT_EQ(back, bytes);
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST_F(BulkFaultTest, AThreadMayEndThem) {
  files_.end_transfers(Ending::kByThread, 5);
  const Bytes bytes = noise(100'000, 1);
  Outcomes writes;
  {
    const auto file = create();
    for (uint64_t at = 0; at < bytes.size(); at += 1000) {
      file->write(at, std::span(bytes).subspan(at, 1000), writes.next());
    }
    ASSERT_TRUE(writes.wait().ok()) << "nobody had to ask";
    ASSERT_TRUE(file->sync().ok());
  }
  EXPECT_EQ(files_.content("/d/file"), bytes);
}

TEST_F(BulkFaultTest, AStalledWriteHoldsTheSyncUntilItIsReleased) {
  const Bytes bytes = noise(3000, 1);
  const auto file = create();
  files_.inject({.operation = 1, .failure = {}, .stalls = true});
  Outcomes writes;
  for (uint64_t at = 0; at < 3000; at += 1000) {
    file->write(at, std::span(bytes).subspan(at, 1000), writes.next());
  }
  EXPECT_EQ(writes.order(), (std::vector<size_t>{0, 2}));
  Status synced(Code::kIo, "not yet");
  std::thread waits([&] { synced = file->sync(); });
  EXPECT_EQ(writes.ended(), 2U);
  EXPECT_NE(files_.content("/d/file"), bytes);
  files_.release();
  waits.join();
  EXPECT_TRUE(synced.ok());
  EXPECT_TRUE(writes.wait().ok());
  EXPECT_EQ(files_.content("/d/file"), bytes);
}

TEST_F(BulkFaultTest, AFailedWriteIsHalfDoneAndForGood) {
  for (const int error : {ENOSPC, EDQUOT, EIO}) {
    const std::string path = "/d/" + std::to_string(error);
    const auto file = create(path);
    const Bytes bytes = noise(1000, 1);
    files_.inject({.operation = 0, .failure = device_failure(error)});
    Outcomes writes;
    file->write(0, bytes, writes.next());
    EXPECT_EQ(writes.wait().code(), error == EIO ? Code::kIo : Code::kNoSpace);
    EXPECT_EQ(files_.content(path), Bytes(bytes.begin(), bytes.begin() + 500));
    EXPECT_FALSE(file->sync().ok());
    files_.heal();
    EXPECT_FALSE(file->sync().ok());
  }
}

// The bytes that are left of a file that was synced and then written again.
Bytes left_by_crash(uint64_t seed, const Bytes& durable, const Bytes& later, bool dies) {
  FaultFileSystem files;
  EXPECT_TRUE(files.make_folder("/d").ok());
  files.end_transfers(Ending::kWhenAsked, seed);
  Outcomes outcomes;  // the file ends what is on its way
  {
    const auto file = files.create_bulk("/d/file", 0);
    EXPECT_TRUE(files.sync_folder("/d").ok());
    file.value()->write(0, durable, outcomes.next());
    EXPECT_TRUE(file.value()->sync().ok());
    for (uint64_t at = 0; at < later.size(); at += kBlock) {
      const uint64_t size = std::min<uint64_t>(kBlock, later.size() - at);
      file.value()->write(at, std::span(later).subspan(at, size), outcomes.next());
    }
    if (dies) {
      files.inject({.operation = 0, .failure = {}});
      EXPECT_FALSE(files.make_folder("/e").ok()) << "the machine has stopped";
    }
  }
  files.crash(seed);
  return files.content("/d/file");
}

TEST_F(BulkFaultTest, ACrashLeavesAnySubsetOfBlocks) {
  const Bytes durable = noise(4 * kBlock + 100, 1);
  const Bytes later = noise(6 * kBlock + 50, 2);
  for (const bool dies : {false, true}) {
    std::set<std::vector<int>> patterns;
    std::set<size_t> sizes;
    for (uint64_t seed = 0; seed < 400; ++seed) {
      const Bytes left = left_by_crash(seed, durable, later, dies);
      ASSERT_EQ(left, left_by_crash(seed, durable, later, dies)) << "the seed decides";
      sizes.insert(left.size());
      ASSERT_GE(left.size(), durable.size());
      ASSERT_LE(left.size(), later.size());
      std::vector<int> pattern;
      for (uint64_t at = 0; at < left.size(); at += kBlock) {
        const uint64_t end = std::min<uint64_t>(at + kBlock, left.size());
        Bytes old(left.size());
        std::copy(durable.begin(), durable.end(), old.begin());
        const auto holds = [&](const Bytes& bytes) {
          return std::equal(left.begin() + ptrdiff_t(at), left.begin() + ptrdiff_t(end),
                            bytes.begin() + ptrdiff_t(at));
        };
        ASSERT_TRUE(holds(old) || holds(later)) << "block " << at / kBlock << " of " << seed;
        pattern.push_back(holds(later) ? 1 : 0);
      }
      patterns.insert(pattern);
    }
    EXPECT_GT(patterns.size(), 60U);
    EXPECT_GT(sizes.size(), 2U);
  }
}

TEST_F(BulkFaultTest, ACrashLeavesWhatWasSynced) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FaultFileSystem files;
    ASSERT_TRUE(files.make_folder("/d").ok());
    files.end_transfers(Ending::kWhenAsked, seed);
    const Bytes bytes = noise(70'000, seed);
    {
      const auto file = files.create_bulk("/d/a", bytes.size() + 5000);
      const auto lost = files.create_bulk("/d/lost", 0);
      const auto plain = files.create("/d/b");
      Outcomes outcomes;
      for (uint64_t at = 0; at < bytes.size(); at += 7000) {
        file.value()->write(at, std::span(bytes).subspan(at, 7000), outcomes.next());
      }
      ASSERT_TRUE(file.value()->sync().ok());
      ASSERT_TRUE(plain.value()->append(std::span(bytes).first(5000)).ok());
      ASSERT_TRUE(plain.value()->sync().ok());
      ASSERT_TRUE(plain.value()->append(std::span(bytes).subspan(5000)).ok());
      ASSERT_TRUE(files.sync_folder("/d").ok());
    }
    files.crash(seed);
    EXPECT_EQ(files.content("/d/a"), bytes);
    const Bytes plain = files.content("/d/b");
    ASSERT_GE(plain.size(), 5000U);
    EXPECT_TRUE(std::equal(plain.begin(), plain.begin() + 5000, bytes.begin()));
  }
}

TEST_F(BulkFaultTest, ChanceDependsOnWhatIsDoneAndNotOnItsOrder) {
  const auto failed = [](uint64_t seed, bool backwards) {
    FaultFileSystem files;
    EXPECT_TRUE(files.make_folder("/d").ok());
    const auto file = files.create_bulk("/d/file", 0);
    files.fail_by_chance({seed, 4, {device_failure(EIO), device_failure(ENOSPC)}});
    std::set<uint64_t> failures;
    const Bytes bytes(10);
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t at = (backwards ? 63 - i : i) * 10;
      file.value()->write(at, bytes, [&](const Status& status) {
        if (!status.ok()) failures.insert(at);
      });
    }
    return failures;
  };
  EXPECT_EQ(failed(1, false), failed(1, true));
  EXPECT_NE(failed(1, false), failed(2, false));
  EXPECT_GT(failed(1, false).size(), 4U);
  EXPECT_LT(failed(1, false).size(), 40U);
}

}  // namespace
}  // namespace gpusnap::test
