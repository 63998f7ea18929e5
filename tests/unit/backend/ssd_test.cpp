// Local tiers behind the cache: chunks' way through them, and what becomes of it when they fail.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "backend_support.h"
#include "tiers/backend/local_copies.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/checksum.h"
#include "tiers/daemon/in_flight.h"
#include "tiers/daemon/leftovers.h"
#include "tiers/part_reader.h"
#include "watched_file_system.h"

namespace gpusnap::test {
namespace {

// The first record says so.
std::vector<std::byte> of_later_version(std::vector<std::byte> log) {
  constexpr size_t kHead = 16;  // magic, version, kind, bytes that follow; then the checksum
  uint32_t payload = 0;
  std::memcpy(&payload, &log[12], sizeof payload);
  log[4] = std::byte{100};
  const uint64_t sum = checksum(std::span(log).first(kHead + payload));
  std::memcpy(&log[kHead + payload], &sum, sizeof sum);
  return log;
}

TEST_F(SsdTest, ChunksGoThroughIt) {
  for (const PlacementPolicy policy :
       {PlacementPolicy::kCacheOnly, PlacementPolicy::kSsdOnly, PlacementPolicy::kHybridNaive,
        PlacementPolicy::kHybridOpt}) {
    files_.heal();
    start(policy, 2);
    Saver saver(*memory_, "/store", job_);
    saver.compression = {CompressionSetting::Mode::kLevel, 1};
    const uint64_t first = 10 * static_cast<uint64_t>(policy) + 1;
    for (uint64_t epoch = first; epoch < first + 5; ++epoch) {
      const Status saved = saver.wait(saver.save(epoch));
      EXPECT_TRUE(saved.ok()) << saved.message();
      expect_back(epoch);
    }
    const BackendCounters counters = backend_->counters();
    ASSERT_EQ(counters.tiers.size(), 2U);
    EXPECT_EQ(counters.tiers[0].cached() + counters.tiers[1].cached(), 0U);
    // 5 checkpoints of 12 slots with data, 3 at most in a chunk.
    EXPECT_GE(counters.placed[0] + counters.placed[1], 20U);
    if (policy == PlacementPolicy::kCacheOnly) {
      EXPECT_EQ(counters.placed[1], 0U);
    }
    if (policy == PlacementPolicy::kSsdOnly) {
      EXPECT_EQ(counters.placed[0], 0U);
    }
    saver.go();
    drain();
    // The chunks that were placed there have been written there.
    std::set<std::string> written;
    for (const std::string& entry : files_.log()) {
      const size_t end = entry.find(".chunk@");
      if (entry.starts_with("write /ssd/") && end != entry.npos)
        written.insert(entry.substr(0, end));
    }
    EXPECT_EQ(written.size(), counters.placed[1]);
    expect_only_copies();
    uint64_t bytes = 0;
    for (const std::string& path : on_ssd()) {
      if (path.ends_with(".chunk")) bytes += files_.content(path).size();
    }
    EXPECT_LE(bytes, 2 * (3 * kSlot + 4096)) << "more than its capacity";
    expect_no_leftovers();
  }
}

// Chunks on the device as well as those in slots: nothing is flushed, so they stay.
TEST_F(SsdTest, AnotherOneCountsWhatIsThere) {
  for (const PlacementPolicy policy :
       {PlacementPolicy::kSsdOnly, PlacementPolicy::kCacheOnly, PlacementPolicy::kHybridNaive}) {
    const auto counts = [this] {
      const BackendCounters counters = backend_->counters();
      return std::vector<uint64_t>{counters.tiers[0].waiting, counters.tiers[1].waiting,
                                   counters.waiting};
    };
    start(policy, 100, 0);
    Saver saver(*memory_, "/store", job_);
    const uint64_t epoch = static_cast<uint64_t>(policy) + 1;
    const uint32_t stream = saver.save(epoch);
    const uint64_t chunks = 4;  // 12 slots with data
    const auto is_there = [&] {
      const std::vector<uint64_t> now = counts();
      return std::accumulate(now.begin(), now.end(), uint64_t{0}) == chunks;
    };
    EXPECT_TRUE(comes_true(is_there)) << name_of(policy);
    const std::vector<uint64_t> before = counts();
    EXPECT_EQ(before[1] > 0, policy != PlacementPolicy::kCacheOnly);
    stop();
    start(policy, 100, 0);
    EXPECT_TRUE(comes_true([&] { return counts() == before; })) << name_of(policy);
    const BackendCounters counters = backend_->counters();
    EXPECT_EQ(counters.placed[1], 0U) << "by the one before";
    stop();
    start(policy);
    EXPECT_TRUE(saver.wait(stream).ok());
    EXPECT_EQ(counts(), std::vector<uint64_t>({0, 0, 0}));
    saver.go();
    drain();
    expect_back(epoch);
  }
}

// A store that is full comes to count as one that takes nothing.
TEST_F(SsdTest, AFlushThatFailsShowsASlowStore) {
  start(PlacementPolicy::kHybridOpt);
  Saver saver(*memory_, "/store", job_);
  EXPECT_GT(backend_->counters().flush_bandwidth, 0);
  FaultFileSystem::Fault fault;
  fault.where = ".segment";
  fault.failure = device_failure(ENOSPC);
  fault.persists = true;
  files_.inject(fault);
  EXPECT_EQ(saver.wait(saver.save(1)).code(), Code::kNoSpace);
  EXPECT_TRUE(comes_true([&] { return backend_->counters().flush_bandwidth == 0; }));
  files_.heal();
  saver.go();
  drain();
}

// A part that is safe on a local device stays there, and goes to the store when that is back. The
// backend that meets the failure is another one than that which made it safe, and meets it at any
// of these files first.
class HeldTest : public SsdTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(FailsAt, HeldTest, ::testing::Values(".segment", "/store/demo"));

TEST_P(HeldTest, WhatIsHeldOutlivesAStoreThatFails) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  Saver saver(*memory_, "/store", job_);
  const uint32_t stream = saver.save(1);
  const auto parts = [this] { return look_at(*memory_).parts; };
  EXPECT_TRUE(comes_true([&] { return !parts().empty() && parts().front().held; }));
  stop();
  FaultFileSystem::Fault fault;
  fault.where = GetParam();
  fault.failure = device_failure(ENOSPC);
  fault.persists = true;
  files_.inject(fault);
  start();
  EXPECT_EQ(saver.wait(stream).code(), Code::kNoSpace);
  EXPECT_EQ(leftovers_on(files_, {{"/ssd", 0}}).size(), 1U);
  EXPECT_TRUE(comes_true([&] { return backend_->counters().failed > 3; })) << "tries again";
  EXPECT_LE(warnings_with("No space"), 1U) << "in one line";
  files_.heal();
  EXPECT_TRUE(comes_true([&] { return backend_->counters().committed == 1; }));
  EXPECT_TRUE(leftovers_on(files_, {{"/ssd", 0}}).empty());
  saver.go();
  drain();
  expect_back(1);
  expect_only_copies();
}

TEST_F(SsdTest, AnotherOneTakesOver) {
  for (int round = 0; round < 60; ++round) {
    start();
    Saver saver(*memory_, "/store", job_);
    saver.open_journal();
    const uint64_t epoch = 2 * static_cast<uint64_t>(round) + 1;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
      stop();
      start(PlacementPolicy::kHybridNaive);
    });
    const uint32_t first = saver.save(epoch);
    const uint32_t second = saver.save(epoch + 1);
    stopper.join();
    const Status saved = saver.wait(first);
    EXPECT_TRUE(saved.ok()) << saved.message();
    EXPECT_TRUE(saver.wait(second).ok());
    expect_back(epoch);
    expect_back(epoch + 1);
    saver.go();
    drain();
    expect_no_leftovers();
    expect_only_copies();
    files_.erase("/store/demo/" + journal_name(job_));
  }
}

// The machine stops at any operation and starts again: what was whole on the device is brought to
// its end, the rest goes, and what is complete is right.
TEST_F(SsdTest, WhatIsWholeOutlivesTheMachine) {
  bool stopped = true;
  size_t brought = 0;
  for (size_t at = 0; stopped; ++at) {
    FaultFileSystem::Fault stop_at;
    stop_at.operation = at;
    files_.inject(stop_at);
    const uint64_t epoch = at + 1;
    job_.run = "run" + std::to_string(at);
    start();
    {
      Saver saver(*memory_, "/store", job_);
      saver.open_journal();
      (void)saver.wait(saver.save(epoch));
      stopped = files_.operations() > at;
    }
    stop();
    if (at % 3 == 0) {
      files_.crash(Survival::kNothing);
    } else if (at % 3 == 1) {
      files_.crash(Survival::kEverything);
    } else {
      files_.crash(at);
    }
    const bool whole = !leftovers_on(files_, {{"/ssd", 0}}).empty();
    brought += whole ? 1 : 0;
    memory_ = std::move(StagingMemory::make_private({kSlot, 24 * kSlot}).value());
    ASSERT_TRUE(files_.make_folder("/store").ok());
    start();
    drain();
    if (whole) expect_back(epoch);
    const auto listed = Store::open(files_, "/store", false).value()->list("");
    ASSERT_TRUE(listed.ok());
    for (const CheckpointInfo& info : listed.value()) {
      EXPECT_NE(info.state, CheckpointState::kDamaged) << info.id << ": " << info.reason;
      if (info.state == CheckpointState::kComplete && info.epoch == epoch) expect_back(epoch);
    }
    expect_only_copies();
    if (HasFailure()) FAIL() << "stopped at " << at;
  }
  EXPECT_GT(brought, 5U);
}

FaultFileSystem::Fault fault_on_ssd(size_t operation, int error) {
  FaultFileSystem::Fault fault;
  fault.where = "/ssd/";
  fault.operation = operation;
  fault.failure = device_failure(error);
  return fault;
}

// The device fails in every way and at every operation: the checkpoint goes another way.
TEST_F(SsdTest, ThatFailsCostsNoCheckpoint) {
  job_.ranges = {4 * kSlot, 100};
  size_t operations = 1;
  uint64_t epoch = 0;
  for (size_t at = 0; at < operations; ++at) {
    for (const int error : {ENOSPC, EIO, EDQUOT}) {
      for (const int kind : {0, 1, 2}) {
        start();
        {
          Saver saver(*memory_, "/store", job_);
          saver.keep = 2;
          if (at % 2 == 1) saver.compression = {CompressionSetting::Mode::kLevel, 1};
          saver.open_journal();
          FaultFileSystem::Fault fault = fault_on_ssd(at, error);
          fault.takes_effect = kind == 1;
          fault.persists = kind == 2;
          files_.inject(fault);
          const Status saved = saver.wait(saver.save(++epoch));
          EXPECT_TRUE(saved.ok()) << saved.message();
          operations = std::max(operations, files_.operations());
        }
        files_.heal();
        drain();
        // The next backend removes what could not be removed.
        start();
        drain();
        expect_back(epoch);
        expect_only_copies();
        expect_no_leftovers();
        files_.erase("/store/demo/" + journal_name(job_));
        if (HasFailure()) FAIL() << "operation " << at << ", error " << error << ", kind " << kind;
      }
    }
  }
  EXPECT_GT(operations, 10U);
  EXPECT_GT(warnings_with("go without the local tier /ssd"), 10U);
}

// It is told once, gets nothing for a while, and nobody waits for it.
TEST_F(SsdTest, ThatFailsIsLeftOut) {
  start();
  Saver saver(*memory_, "/store", job_);
  FaultFileSystem::Fault fault = fault_on_ssd(0, ENOSPC);
  fault.persists = true;
  files_.inject(fault);
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  while (warnings_with("") == 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(saver.wait(saver.save(2)).ok());
  const uint64_t placed = backend_->counters().placed[1];
  for (uint64_t epoch = 3; epoch <= 6; ++epoch) EXPECT_TRUE(saver.wait(saver.save(epoch)).ok());
  EXPECT_EQ(backend_->counters().placed[1], placed);
  EXPECT_EQ(warnings_with("go without the local tier /ssd"), 1U);
  files_.heal();
  saver.go();
  drain();
  expect_back(6);
}

// Most of a chunk's slots were let go when its device failed: they are read back from there.
TEST_F(SsdTest, WhatItTookBeforeItFailedIsUsed) {
  job_.ranges = {2 * kSlot, 3 * kSlot};
  for (uint64_t epoch = 1; epoch <= 12; ++epoch) {
    start();
    Saver saver(*memory_, "/store", job_);
    saver.after_first = [&] {
      wait_until_written();
      FaultFileSystem::Fault fault = fault_on_ssd(epoch / 2, EIO);
      fault.persists = epoch % 2 == 1;
      files_.inject(fault);
    };
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    files_.heal();
    saver.go();
    drain();
    expect_back(epoch);
    expect_only_copies();
  }
}

// Bytes that a device gives back wrong never become a checkpoint, also with the next backend.
TEST_F(SsdTest, DamageIsFoundBeforeTheCommit) {
  job_.ranges = {2 * kSlot, 3 * kSlot};
  for (uint64_t epoch = 1; epoch <= 4; ++epoch) {
    start();
    Saver saver(*memory_, "/store", job_);
    if (epoch % 2 == 0) saver.compression = {CompressionSetting::Mode::kLevel, 1};
    saver.after_first = [&] {
      wait_until_written();
      if (epoch > 2) stop();
      flip_bit(only_chunk(), 4096 + 100);
      if (epoch > 2) start();
    };
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_EQ(saved.code(), Code::kDamaged) << saved.message();
    EXPECT_NE(saved.message().find(".chunk is damaged between bytes 4096 and "), std::string::npos)
        << saved.message();
    saver.go();
    drain();
    for (const std::string& path : files_.paths()) EXPECT_FALSE(path.ends_with(".manifest"));
    EXPECT_TRUE(on_ssd().empty());
    expect_no_leftovers();
  }
}

TEST_F(SsdTest, WhatIsSealedThereOutlivesAReboot) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  {
    Saver saver(*memory_, "/store", job_);
    saver.open_journal();
    saver.save(1);
    while (leftovers_on(files_, {{"/ssd", 0}}).empty()) std::this_thread::sleep_for(1ms);
  }
  reboot(Survival::kNothing);
  start();
  drain();
  expect_back(1);
  EXPECT_TRUE(leftovers_on(files_, {{"/ssd", 0}}).empty());
  expect_only_copies();
}

// As it is seen from outside, with nothing flushed at first.
TEST_F(SsdTest, TellsHowItGetsOn) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  Saver saver(*memory_, "/store", job_);
  const uint32_t stream = saver.save(1);
  const auto report = [this](const auto& is_so) {
    for (;;) {
      const auto seen = memory_->header().report.look();
      if (seen && is_so(*seen)) return *seen;
      std::this_thread::sleep_for(1ms);
    }
  };
  const auto parts = [this] { return look_at(*memory_).parts; };
  while (parts().empty() || !parts().front().held) std::this_thread::sleep_for(1ms);
  const BackendReport held =
      report([](const BackendReport& seen) { return seen.tier[1].waiting > 0; });
  EXPECT_EQ(held.tiers, 2U);
  EXPECT_EQ(std::string(held.tier[0].folder), "");
  EXPECT_EQ(std::string(held.tier[1].folder), "/ssd");
  EXPECT_EQ(held.tier[1].capacity, 100U);
  EXPECT_EQ(held.tier[1].flushing, 0U);
  EXPECT_EQ(held.chunk_bytes, 3 * kSlot);
  EXPECT_EQ(held.checkpoints, 1U);
  EXPECT_EQ(held.committed, 0U);
  stop();
  start();
  EXPECT_TRUE(saver.wait(stream).ok());
  EXPECT_TRUE(saver.wait(saver.save(2)).ok());
  const BackendReport after = report([](const BackendReport& seen) { return seen.committed == 2; });
  EXPECT_EQ(after.checkpoints, 0U);
  EXPECT_EQ(after.failed, 0U);
  EXPECT_EQ(after.tier[1].waiting, 0U);
  EXPECT_GT(after.flush_bytes_per_second, 0U);
  saver.go();
  drain();
}

TEST_F(SsdTest, WhatIsNotSealedThereGoesWithAReboot) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  {
    Saver saver(*memory_, "/store", job_);
    saver.fill(1);
    wait_until_written();
    EXPECT_FALSE(only_chunk().empty());
    stop();
  }
  start(PlacementPolicy::kSsdOnly, 100, 0);
  reboot(Survival::kEverything);
  EXPECT_FALSE(only_chunk().empty());
  start();
  drain();
  EXPECT_TRUE(on_ssd().empty());
  EXPECT_FALSE(files_.exists("/store/demo/e1/r0.manifest"));
}

// A later gpusnap can bring it to its end, and a device may answer another time.
TEST_F(SsdTest, WhatCannotBeToldThereStays) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  {
    Saver saver(*memory_, "/store", job_);
    saver.open_journal();
    saver.save(1);
    while (leftovers_on(files_, {{"/ssd", 0}}).empty()) std::this_thread::sleep_for(1ms);
  }
  reboot(Survival::kNothing);
  const std::vector<std::string> there = on_ssd();
  const auto log = std::ranges::find_if(
      there, [](const std::string& path) { return path.ends_with(".blocks"); });
  ASSERT_NE(log, there.end());
  const std::vector<std::byte> bytes = files_.content(*log);
  files_.put(*log, of_later_version(bytes));
  start();
  drain();
  EXPECT_EQ(on_ssd(), there);
  EXPECT_EQ(warnings_with(*log), 1U);
  EXPECT_EQ(warnings_with("use a later gpusnap"), 1U);
  files_.put(*log, bytes);
  start();
  drain();
  expect_back(1);
}

// The area is free before its backend has let go of everything.
TEST_F(SsdTest, ThatAnEarlierBackendIsAboutToLeaveIsWaitedFor) {
  ASSERT_TRUE(files_.make_folder(user_folder("/ssd") + "/node").ok());
  auto held = files_.lock(user_folder("/ssd") + "/node/lock");
  ASSERT_TRUE(held.ok());
  std::thread leaves([&] {
    std::this_thread::sleep_for(30ms);
    held.value().reset();
  });
  // Its patience ends sooner only where the machine stands still.
  size_t found = 0;
  for (int tries = 0; tries < 3 && found == 0; ++tries) {
    const auto tiers = LocalTiers::open(files_, {{"/ssd", 1 << 20}}, "node",
                                        PlacementPolicy::kSsdOnly, 4096, [](const std::string&) {});
    found = tiers->tiers().size();
  }
  leaves.join();
  EXPECT_EQ(found, 1U);
}

// Another rank's part that ends takes the folders away that it finds empty, at any moment.
TEST_F(SsdTest, FoldersMayGoBetweenTwoSteps) {
  std::mutex mutex;  // several threads of the part make files
  int removed = 0;
  WatchedFileSystem watched(files_, [&] {
    const std::string folder =
        user_folder("/ssd") + "/node/" + store_key("/store") + "/demo/" + epoch_folder(1);
    const std::lock_guard lock(mutex);
    if (removed < 30 && files_.remove_folder(folder).ok()) ++removed;
  });
  through_ = &watched;
  start();
  Saver saver(*memory_, "/store", job_);
  const Status saved = saver.wait(saver.save(1));
  EXPECT_TRUE(saved.ok()) << saved.message();
  EXPECT_EQ(removed, 30);
  EXPECT_EQ(warnings_with("without the local tier"), 0U);
  EXPECT_GT(backend_->counters().placed[1], 0U);
  saver.go();
  drain();
  expect_back(1);
}

class CopiesTest : public SsdTest {
 protected:
  // Reads it as a restore does, or of its extents only each second one, as one does of a checkpoint
  // that newer ones have replaced in part.
  LocalChunks::Counts expect_back_from_copies(uint64_t epoch, bool each_second = false) {
    const auto store = Store::open(files_, "/store", false);
    const auto info = store.value()->find("demo@" + std::to_string(epoch));
    EXPECT_TRUE(info.ok()) << info.status().message();
    if (!info.ok()) return {};
    auto contents = store.value()->resolve(info.value(), 0);
    EXPECT_TRUE(contents.ok()) << contents.status().message();
    if (!contents.ok()) return {};
    if (each_second) contents->pieces = each_second_part(contents->pieces);
    std::vector<std::vector<bool>> is_wanted;
    for (const size_t size : job_.ranges) is_wanted.emplace_back(size);
    for (const PlacedExtent& piece : contents->pieces) {
      const auto at = is_wanted.at(piece.range).begin() + static_cast<std::ptrdiff_t>(piece.offset);
      std::fill_n(at, piece.size, true);
    }
    std::vector<std::vector<bool>> is_found;
    for (const size_t size : job_.ranges) is_found.emplace_back(size);
    LocalChunks near = find_copies(files_, {{"/ssd", 0}}, "/store", "demo", contents->chain);
    PlainReadBuffers buffers(3);
    const Status read = store.value()->read_all(
        info.value(), contents.value(), buffers,
        [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
          for (const ReadPiece& piece : pieces) {
            const auto memory = memory_at(epoch, piece.range, job_.ranges.at(piece.range));
            EXPECT_TRUE(std::ranges::equal(bytes.subspan(piece.at, piece.size),
                                           std::span(memory).subspan(piece.offset, piece.size)));
            const auto at =
                is_found.at(piece.range).begin() + static_cast<std::ptrdiff_t>(piece.offset);
            std::fill_n(at, piece.size, true);
          }
          return Status();
        },
        &near);
    EXPECT_TRUE(read.ok()) << read.message();
    EXPECT_TRUE(is_found == is_wanted);
    return near.counts;
  }
  static std::vector<PlacedExtent> each_second_part(const std::vector<PlacedExtent>& pieces) {
    std::vector<PlacedExtent> found;
    for (PlacedExtent piece : pieces) {
      for (uint64_t left = piece.size; left > 0; left -= piece.size) {
        const uint64_t part = piece.offset / Extent::kPartBytes;
        piece.size = std::min(left, (part + 1) * Extent::kPartBytes - piece.offset);
        if (part % 2 == 0) found.push_back(piece);
        piece.within += piece.size;
        piece.offset += piece.size;
      }
    }
    return found;
  }
  void save(uint64_t first, uint64_t last, bool compressed = false) {
    Saver saver(*memory_, "/store", job_);
    saver.keep = keep_;
    if (compressed) saver.compression = {CompressionSetting::Mode::kLevel, 1};
    for (uint64_t epoch = first; epoch <= last; ++epoch) {
      const Status saved = saver.wait(saver.save(epoch));
      EXPECT_TRUE(saved.ok()) << saved.message();
    }
  }
  std::vector<std::string> files_with(const std::string& part) const {
    std::vector<std::string> paths = files_.paths();
    std::erase_if(paths, [&](const std::string& p) { return p.find(part) == std::string::npos; });
    return paths;
  }
  void spoil(const std::string& part) {
    const std::vector<std::string> paths = files_with(part);
    EXPECT_FALSE(paths.empty());
    for (const std::string& path : paths) {
      const size_t size = files_.content(path).size();
      for (size_t at = 4096; at < size; at += 500) flip_bit(path, at);
    }
  }

  uint32_t keep_ = 0;
};

TEST_F(CopiesTest, AreReadInsteadOfTheStore) {
  for (const bool compressed : {false, true}) {
    start();
    save(1, 1, compressed);
    drain();
    spoil(".segment");
    const LocalChunks::Counts counts = expect_back_from_copies(1);
    EXPECT_GT(counts.near, 0U);
    EXPECT_EQ(counts.store, 0U);
    EXPECT_EQ(counts.passed_over, 0U);
    for (const std::string& path : files_.paths()) files_.erase(path);
  }
}

// Extents have several parts: no more is read of a copy than is needed.
TEST_F(CopiesTest, AreReadInParts) {
  const uint64_t most = Extent::kPartBytes;
  memory_ = std::move(StagingMemory::make_private({4 * most, 24 * 4 * most}).value());
  job_.ranges = {10 * most, 3 * most + 777};
  start();
  save(1, 1);
  drain();
  spoil(".segment");
  const LocalChunks::Counts all = expect_back_from_copies(1);
  EXPECT_EQ(all.store, 0U);
  EXPECT_EQ(all.passed_over, 0U);
  const LocalChunks::Counts half = expect_back_from_copies(1, true);
  EXPECT_EQ(half.near, 7 * most);
  EXPECT_EQ(half.store, 0U);
  EXPECT_EQ(half.passed_over, 0U);
}

TEST_F(CopiesTest, ThatAreNotRightArePassedOver) {
  start();
  save(1, 3);
  drain();
  spoil("/e1/r0-abc123-0.chunk");
  for (const std::string& path : files_with("/e2/r0-abc123-1.chunk")) files_.erase(path);
  for (const std::string& path : files_with("/e3/")) {
    if (path.ends_with(".blocks")) files_.put(path, {files_.content(path).size(), std::byte{7}});
  }
  const LocalChunks::Counts wrong = expect_back_from_copies(1);
  EXPECT_GT(wrong.near, 0U);
  EXPECT_GT(wrong.store, 0U);
  EXPECT_GT(wrong.passed_over, 0U);
  const LocalChunks::Counts missing = expect_back_from_copies(2);
  EXPECT_GT(missing.near, 0U);
  EXPECT_GT(missing.store, 0U);
  const LocalChunks::Counts none = expect_back_from_copies(3);
  EXPECT_EQ(none.near, 0U);
}

TEST_F(CopiesTest, TheOldestMakeRoom) {
  start(PlacementPolicy::kSsdOnly, 8);
  save(1, 6);
  EXPECT_GT(expect_back_from_copies(6).near, 0U);
  EXPECT_EQ(expect_back_from_copies(1).near, 0U);
  drain();
  // The next backend counts what is there.
  start(PlacementPolicy::kSsdOnly, 8);
  save(7, 12);
  EXPECT_GT(expect_back_from_copies(12).near, 0U);
  EXPECT_EQ(expect_back_from_copies(6).near, 0U);
  drain();
  EXPECT_TRUE(files_with("/e1/r0-abc123-0.chunk").empty());
  EXPECT_TRUE(files_with("/ssd/").size() < 12) << "more than its capacity";
  expect_only_copies();
}

TEST_F(CopiesTest, GoWithTheirCheckpoint) {
  keep_ = 2;
  start();
  save(1, 5);
  drain();
  for (const std::string& path : on_ssd()) {
    EXPECT_TRUE(path.find("/e4/") != path.npos || path.find("/e5/") != path.npos) << path;
  }
  EXPECT_FALSE(on_ssd().empty());
  // Removed while no backend was there.
  for (const std::string& path : files_with("/store/demo/e5/")) files_.erase(path);
  ASSERT_TRUE(files_.remove_folder("/store/demo/e5").ok());
  start();
  drain();
  EXPECT_TRUE(files_with("/e5/").empty());
  EXPECT_FALSE(files_with("/e4/").empty());
}

// A device that fails is said once, and tried again after half a minute.
TEST(LocalTiersTest, OneThatFailsIsLeftOutForAWhile) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder("/ssd").ok());
  const auto tiers = LocalTiers::open(files, {{"/ssd", 1 << 20}}, "node",
                                      PlacementPolicy::kHybridNaive, 1 << 10, {});
  ASSERT_EQ(tiers->tiers().size(), 1U);
  const LocalTiers::Time now{};
  EXPECT_TRUE(tiers->recovered(now).empty());
  EXPECT_TRUE(tiers->fail(0, now));
  EXPECT_TRUE(tiers->recovered(now + 29s).empty());
  EXPECT_FALSE(tiers->fail(0, now + 10s)) << "told twice";
  EXPECT_TRUE(tiers->recovered(now + 39s).empty());
  EXPECT_EQ(tiers->recovered(now + 40s), std::vector<size_t>{0});
  EXPECT_TRUE(tiers->recovered(now + 100s).empty());
}

TEST_F(CopiesTest, GoWithAMerge) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.chain = 2;
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  EXPECT_TRUE(saver.wait(saver.save(2, 1)).ok());
  saver.go();
  const auto copies_of_2 = [&] {
    std::vector<std::string> paths = files_with("/demo/e2/");
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("/ssd/"); });
    return paths.size();
  };
  for (int i = 0; i < 60'000 && copies_of_2() > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(copies_of_2(), 0U);
  const LocalChunks::Counts counts = expect_back_from_copies(2);
  EXPECT_EQ(counts.near, 0U);
  EXPECT_GT(counts.store, 0U);
  drain();
}

// Nothing is left of a backend that leaves nothing.
TEST_F(SsdTest, FoldersGoWithWhatIsInThem) {
  start();
  {
    Saver saver(*memory_, "/store", job_);
    saver.client().abandon(saver.fill(1));
  }
  drain();
  EXPECT_TRUE(on_ssd().empty());
  EXPECT_EQ(files_.entries("/ssd/gpusnap").status().code(), Code::kNotFound);
}
}  // namespace
}  // namespace gpusnap::test
