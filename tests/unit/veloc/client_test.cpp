// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "program.h"

namespace gpusnap::veloc::test {
namespace {

constexpr int kVersions = 16;
constexpr uint64_t kBytes = 16 << 10;

testing::AssertionResult is_ok(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.message();
}

// ---- What was written comes back

enum class Order : uint8_t { kSequential, kReverse, kIrregular };
enum class Hints : uint8_t { kNone, kNext, kAll };

struct Case {
  Order order;
  Hints hints;
  bool is_variable, waits, is_on_device, has_scratch;
};

std::string name_of(const Case& each) {
  const char* const orders[] = {"Sequential", "Reverse", "Irregular"};
  const char* const hints[] = {"NoHints", "NextHint", "AllHints"};
  return std::string(orders[static_cast<int>(each.order)]) + hints[static_cast<int>(each.hints)] +
         (each.is_variable ? "Variable" : "Uniform") + (each.waits ? "Wait" : "NoWait") +
         (each.is_on_device ? "Device" : "Host") + (each.has_scratch ? "" : "NoScratch");
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Order order : {Order::kSequential, Order::kReverse, Order::kIrregular}) {
    for (const Hints hints : {Hints::kNone, Hints::kNext, Hints::kAll}) {
      for (int bits = 0; bits < 16; ++bits) {
        cases.push_back(
            {order, hints, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
      }
    }
  }
  return cases;
}

std::vector<int> versions_in(Order order) {
  std::vector<int> versions;
  for (int version = 0; version < kVersions; ++version) versions.push_back(version);
  if (order == Order::kReverse) std::ranges::reverse(versions);
  if (order == Order::kIrregular) std::ranges::shuffle(versions, std::mt19937(7));
  return versions;
}

class AnyShot : public testing::TestWithParam<Case> {
 protected:
  // Some are larger than the device's cache.
  uint64_t bytes_of(int version) const {
    if (!GetParam().is_variable) return kBytes;
    return 1 + static_cast<uint64_t>(version) * 7919 % (40 << 10);
  }
};

TEST_P(AnyShot, AllBytesComeBack) {
  FaultFileSystem files;
  Config config = small_config();
  config.gpu_cache = 36 << 10;
  if (!GetParam().has_scratch) config.scratch.clear();
  Program program(files, config, GetParam().is_on_device);
  const std::vector<int> order = versions_in(GetParam().order);
  if (GetParam().hints == Hints::kAll) {
    for (const int version : order) ASSERT_TRUE(is_ok(program.client().hint({}, version)));
  }
  for (int version = 0; version < kVersions; ++version) {
    ASSERT_TRUE(is_ok(program.write(version, bytes_of(version)))) << version;
  }
  if (GetParam().waits) {
    ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
  }
  ASSERT_TRUE(is_ok(program.client().start_prefetching()));
  for (size_t i = 0; i < order.size(); ++i) {
    if (GetParam().hints == Hints::kNext && i + 1 < order.size()) {
      ASSERT_TRUE(is_ok(program.client().hint("demo", order[i + 1])));
    }
    ASSERT_TRUE(is_ok(program.restore(order[i], bytes_of(order[i])))) << order[i];
  }
  ASSERT_TRUE(is_ok(program.client().finish(true)));
}

INSTANTIATE_TEST_SUITE_P(Client, AnyShot, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return name_of(each.param); });

TEST(Client, AVersionIsWrittenOnceByARun) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  ASSERT_TRUE(is_ok(program.write(3, kBytes)));
  EXPECT_EQ(program.write(3, kBytes).code(), Code::kInvalid);
  EXPECT_EQ(program.write(-1, kBytes).code(), Code::kInvalid);
  EXPECT_TRUE(is_ok(program.restore(3, kBytes)));
}

TEST(Client, ARestoreDoesNotWaitForTheFlush) {
  FaultFileSystem files;
  files.inject({.stalls = true, .where = "write"});
  Program program(files, small_config(), true);
  ASSERT_TRUE(is_ok(program.write(1, kBytes)));
  EXPECT_TRUE(is_ok(program.restore(1, kBytes)));
  while (files.on_their_way() == 0) std::this_thread::yield();
  EXPECT_TRUE(is_ok(program.restore(1, kBytes)));
  EXPECT_FALSE(program.client().is_durable());
  files.release();
  EXPECT_TRUE(is_ok(program.client().wait_until_durable()));
}

// ---- Regions

TEST(Client, RegionsAreRecoveredByTheirNumbers) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  std::vector<int> numbers = {1, 2, 3};
  program.fill(9, kBytes);
  program.client().protect(-7, numbers.data(), 3 * sizeof(int));
  ASSERT_TRUE(is_ok(program.client().checkpoint("demo", 9)));
  numbers = {0, 0, 0};
  std::memset(program.memory(), 0xdd, kBytes);
  ASSERT_TRUE(is_ok(program.client().begin_restart("demo", 9)));
  EXPECT_EQ(program.client().size_of(-7).value(), 3 * sizeof(int));
  ASSERT_TRUE(is_ok(program.client().recover({Selection::Mode::kSome, {-7}})));
  EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(program.memory()[0], std::byte{0xdd});
  ASSERT_TRUE(is_ok(program.client().recover({Selection::Mode::kRest, {-7}})));
  EXPECT_EQ(program.memory()[kBytes - 1], byte_of(9, kBytes - 1));
  ASSERT_TRUE(is_ok(program.client().end_restart(true)));
}

TEST(Client, WhatDoesNotFitIsNotRecovered) {
  FaultFileSystem files;
  Program program(files, small_config(), false);
  ASSERT_TRUE(is_ok(program.write(1, kBytes)));
  program.client().protect(1, program.memory(), kBytes - 1);
  EXPECT_EQ(program.client().restart("demo", 1).code(), Code::kInvalid);
  program.client().protect(1, program.memory(), kBytes);
  program.client().protect(2, program.memory(), 1);
  EXPECT_EQ(program.client().restart("demo", 1).code(), Code::kNotFound);
  EXPECT_EQ(program.client().restart("demo", 2).code(), Code::kNotFound);
  EXPECT_EQ(program.memory()[0], std::byte{0xee});
  EXPECT_EQ(program.client().unprotect(8).code(), Code::kNotFound);
}

// ---- Phases

TEST(Client, WhatWasSavedMayChangeBeforeTheCheckpointEnds) {
  for (const uint64_t cache : {uint64_t{64} << 10, uint64_t{4096}}) {  // with room, and without
    FaultFileSystem files;
    Config config = small_config();
    config.gpu_cache = config.host_cache = cache;
    Program program(files, config, true);
    program.fill(5, kBytes);
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 5)));
    ASSERT_TRUE(is_ok(program.client().save({})));
    EXPECT_EQ(program.client().save({}).code(), Code::kInvalid);
    program.fill(6, kBytes);
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(true)));
    EXPECT_TRUE(is_ok(program.restore(5, kBytes)));
    ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
    EXPECT_TRUE(files.exists("/pfs/demo/e5/r0.manifest"));
  }
}

TEST(Client, AFailedCheckpointIsGivenUpAndMayBeWrittenAgain) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  program.fill(5, kBytes);
  ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 5)));
  ASSERT_TRUE(is_ok(program.client().save({})));
  ASSERT_TRUE(is_ok(program.client().end_checkpoint(false)));
  ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
  EXPECT_EQ(program.client().newest("demo", 0).status().code(), Code::kNotFound);
  EXPECT_EQ(program.client().restart("demo", 5).code(), Code::kNotFound);
  ASSERT_TRUE(is_ok(program.write(5, kBytes)));
  EXPECT_TRUE(is_ok(program.restore(5, kBytes)));
}

TEST(Client, PhasesComeInOrder) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  EXPECT_EQ(program.client().save({}).code(), Code::kInvalid);
  EXPECT_EQ(program.client().end_checkpoint(true).code(), Code::kInvalid);
  EXPECT_EQ(program.client().recover({}).code(), Code::kInvalid);
  EXPECT_EQ(program.client().route_file("a").status().code(), Code::kInvalid);
  ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 1)));
  EXPECT_EQ(program.client().begin_restart("demo", 1).code(), Code::kInvalid);
  EXPECT_EQ(program.client().finish(true).code(), Code::kInvalid);
}

// ---- Files

void put(FaultFileSystem& files, const std::string& path, const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  files.put(path, {bytes, bytes + text.size()});
}

std::string text_of(const FaultFileSystem& files, const std::string& path) {
  const std::vector<std::byte> bytes = files.content(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Client, FilesBelongToTheCheckpoint) {
  FaultFileSystem files;
  const std::string long_text(100'000, 'x');
  {
    Program program(files, small_config(), true);
    program.fill(2, kBytes);
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 2)));
    ASSERT_TRUE(is_ok(program.client().save({})));
    put(files, program.client().route_file("out/state.0").value(), "some state");
    put(files, program.client().route_file("out/more.0").value(), long_text);
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(true)));
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  Program program(files, small_config(), true);
  EXPECT_EQ(program.client().newest("demo", 0).value(), 2U);
  EXPECT_TRUE(is_ok(program.restore(2, kBytes)));
  ASSERT_TRUE(is_ok(program.client().begin_restart("demo", 2)));
  EXPECT_EQ(text_of(files, program.client().route_file("out/state.0").value()), "some state");
  EXPECT_EQ(text_of(files, program.client().route_file("out/more.0").value()), long_text);
  EXPECT_EQ(program.client().route_file("out/other").status().code(), Code::kNotFound);
  ASSERT_TRUE(is_ok(program.client().end_restart(true)));
  for (const std::string& path : files.paths()) {
    EXPECT_EQ(path.find("/routed/"), std::string::npos) << path;
  }
}

TEST(Client, FilesAreRestoredWhileTheyAreFlushed) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  for (int version = 0; version < 10; ++version) {
    program.fill(static_cast<uint64_t>(version), kBytes);
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", version)));
    ASSERT_TRUE(is_ok(program.client().save({})));
    put(files, program.client().route_file("state").value(), "state " + std::to_string(version));
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(true)));
  }
  for (int version = 9; version >= 0; --version) {
    ASSERT_TRUE(is_ok(program.client().begin_restart("demo", version)));
    EXPECT_EQ(text_of(files, program.client().route_file("state").value()),
              "state " + std::to_string(version));
    ASSERT_TRUE(is_ok(program.client().end_restart(true)));
  }
}

// Though what was restored need not be kept.
TEST(Client, RegionsAndFilesAreRecoveredOneByOne) {
  FaultFileSystem files;
  Config config = small_config();
  config.discard_consumed = true;
  Program program(files, config, true);
  for (int version = 0; version < 8; ++version) {
    program.fill(static_cast<uint64_t>(version), kBytes);
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", version)));
    ASSERT_TRUE(is_ok(program.client().save({})));
    put(files, program.client().route_file("state").value(), "state");
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(true)));
  }
  for (int version = 7; version >= 0; --version) {
    ASSERT_TRUE(is_ok(program.client().begin_restart("demo", version)));
    for (int part = 0; part < 2; ++part) {
      std::memset(program.memory(), 0xdd, 40 << 10);
      ASSERT_TRUE(is_ok(program.client().recover({})));
      EXPECT_TRUE(is_ok(program.holds(static_cast<uint64_t>(version), kBytes)));
    }
    EXPECT_EQ(text_of(files, program.client().route_file("state").value()), "state");
    ASSERT_TRUE(is_ok(program.client().end_restart(true)));
  }
}

TEST(Client, FilesOfAKilledRunAreRemoved) {
  FaultFileSystem files;
  put(files, "/scratch/demo/routed/r0-v7-written-0-state", "left");
  put(files, "/scratch/demo/routed/r1-v7-written-0-state", "another rank's");
  Program program(files, small_config(), true);
  ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 8)));
  ASSERT_TRUE(program.client().route_file("state").ok());
  EXPECT_FALSE(files.exists("/scratch/demo/routed/r0-v7-written-0-state"));
  EXPECT_TRUE(files.exists("/scratch/demo/routed/r1-v7-written-0-state"));
}

TEST(Client, ACheckpointMayBeFilesAlone) {
  FaultFileSystem files;
  Config config = small_config();
  config.scratch.clear();
  {
    Program program(files, config, true);
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 0)));
    put(files, program.client().route_file("state").value(), "alone");
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(true)));
    ASSERT_TRUE(is_ok(program.client().begin_checkpoint("demo", 1)));
    (void)program.client().route_file("never written");
    ASSERT_TRUE(is_ok(program.client().end_checkpoint(false)));
    ASSERT_TRUE(is_ok(program.client().finish(false)));
  }
  Program program(files, config, true);
  EXPECT_EQ(program.client().newest("demo", 0).value(), 0U);
  ASSERT_TRUE(is_ok(program.client().begin_restart("demo", 0)));
  EXPECT_EQ(text_of(files, program.client().route_file("state").value()), "alone");
}

// ---- Other runs

TEST(Client, ALaterRunFindsTheNewestAndMayWriteItAgain) {
  FaultFileSystem files;
  {
    Program program(files, small_config(), true);
    for (const int version : {1, 5, 3}) ASSERT_TRUE(is_ok(program.write(version, kBytes)));
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  {
    Program program(files, small_config(), true);
    EXPECT_EQ(program.client().newest("demo", 0).value(), 5U);
    EXPECT_EQ(program.client().newest("demo", 5).value(), 3U);
    EXPECT_EQ(program.client().newest("demo", 1).status().code(), Code::kNotFound);
    EXPECT_EQ(program.client().newest("other", 0).status().code(), Code::kNotFound);
    for (const int version : {3, 1, 5}) EXPECT_TRUE(is_ok(program.restore(version, kBytes)));
    ASSERT_TRUE(is_ok(program.write(5, kBytes / 2)));
    EXPECT_TRUE(is_ok(program.restore(5, kBytes / 2)));
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  Program program(files, small_config(), true);
  EXPECT_TRUE(is_ok(program.restore(5, kBytes / 2)));
}

TEST(Client, HintsOfAnEarlierRunsCheckpointsAreFollowed) {
  FaultFileSystem files;
  {
    Program program(files, small_config(), true);
    for (int version = 0; version < 8; ++version)
      ASSERT_TRUE(is_ok(program.write(version, kBytes)));
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  Program program(files, small_config(), true);
  for (int version = 7; version >= 0; --version) {
    ASSERT_TRUE(is_ok(program.client().hint("demo", version)));
  }
  ASSERT_TRUE(is_ok(program.client().start_prefetching()));
  for (int version = 7; version >= 0; --version) {
    EXPECT_TRUE(is_ok(program.restore(version, kBytes))) << version;
  }
}

// Answers of a first run, which a second one gets again as far as they were recorded.
class Recording {
 public:
  std::function<int64_t(int64_t)> recorder() {
    return [this](int64_t found) { return answers_.emplace_back(found); };
  }
  std::function<int64_t(int64_t)> player() {
    return [this](int64_t found) { return next_ < answers_.size() ? answers_[next_++] : found; };
  }
  size_t size() const { return answers_.size(); }
  void cut(size_t size) { answers_.resize(size); }

 private:
  std::vector<int64_t> answers_;
  size_t next_ = 0;
};

// A killed program wrote a version after the cut; the restored one writes other bytes there.
TEST(Client, ARestoredProgramReadsWhatItWroteItself) {
  for (const bool has_scratch : {false, true}) {
    FaultFileSystem files;
    Config config = small_config();
    if (!has_scratch) config.scratch.clear();
    config.host_cache = 4096;  // nothing stays cached
    Recording recording;
    {
      Program program(files, config, true, nullptr, 0, recording.recorder());
      ASSERT_TRUE(is_ok(program.write(1, kBytes)));
      const size_t cut = recording.size();
      ASSERT_TRUE(is_ok(program.write(2, kBytes)));
      ASSERT_TRUE(is_ok(program.client().finish(true)));
      recording.cut(cut);
    }
    const auto before_cut = files.content("/pfs/demo/e1/r0.manifest");
    Program program(files, config, true, nullptr, 0, recording.player());
    ASSERT_TRUE(is_ok(program.write(1, kBytes)));
    ASSERT_TRUE(is_ok(program.write(2, kBytes / 2)));
    EXPECT_TRUE(is_ok(program.restore(2, kBytes / 2)));
    EXPECT_TRUE(is_ok(program.restore(1, kBytes)));
    ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
    EXPECT_EQ(files.content("/pfs/demo/e1/r0.manifest"), before_cut) << "it was written again";
  }
}

TEST(Client, TwoRunsDoNotWriteOneNameAtATime) {
  FaultFileSystem files;
  Program first(files, small_config(), true);
  ASSERT_TRUE(is_ok(first.write(1, kBytes)));
  ASSERT_TRUE(is_ok(first.client().wait_until_durable()));
  Config config = small_config();
  config.gpu_cache = config.host_cache = 4096;  // straight to files
  Program second(files, config, true);
  EXPECT_EQ(second.write(2, kBytes).code(), Code::kBusy);
}

TEST(Client, OldVersionsGo) {
  FaultFileSystem files;
  Config config = small_config();
  config.max_versions = 3;
  {
    Program program(files, config, true);
    for (int version = 0; version < 10; ++version) {
      ASSERT_TRUE(is_ok(program.write(version, kBytes)));
      ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
    }
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  for (const char* folder : {"/pfs", "/scratch"}) {
    for (int version = 0; version < 10; ++version) {
      EXPECT_EQ(
          files.exists(std::string(folder) + "/demo/e" + std::to_string(version) + "/r0.manifest"),
          version >= 7)
          << folder << " " << version;
    }
  }
}

TEST(Client, AWholeProgramsCheckpointIsNotTouched) {
  FaultFileSystem files;
  Program program(files, small_config(), true);
  ASSERT_TRUE(is_ok(program.write(4, kBytes)));
  ASSERT_TRUE(is_ok(program.client().wait_until_durable()));
  // As if it were one.
  auto bytes = files.content("/pfs/demo/e4/r0.manifest");
  Result<Manifest> manifest = decode_manifest(bytes);
  ASSERT_TRUE(manifest.ok());
  manifest->program_write = 0;
  files.put("/pfs/demo/e4/r0.manifest", encode(manifest.value()));
  files.erase("/scratch/demo/e4/r0.manifest");
  Program later(files, small_config(), true);
  EXPECT_EQ(later.client().newest("demo", 0).status().code(), Code::kNotFound);
  EXPECT_EQ(later.client().restart("demo", 4).code(), Code::kInvalid);
}

// ---- Ranks

// Runs `work` as each rank of a job.
template <class Work>
void as_job(FaultFileSystem& files, const Config& config, uint32_t ranks, Work work) {
  Meeting meeting(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Program program(files, config, true, &meeting, rank);
      work(program, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Client, RanksAgreeOnWhatAllOfThemHave) {
  FaultFileSystem files;
  as_job(files, small_config(), 4, [](Program& program, uint32_t rank) {
    for (int version = 0; version <= 4; ++version) {
      // Rank 2 dies after 3.
      if (rank == 2 && version > 3) continue;
      EXPECT_TRUE(is_ok(program.write(version, kBytes + rank)));
    }
    EXPECT_TRUE(is_ok(program.client().finish(true)));
  });
  as_job(files, small_config(), 4, [](Program& program, uint32_t rank) {
    EXPECT_EQ(program.client().newest("demo", 0).value(), 3U);
    EXPECT_TRUE(is_ok(program.restore(3, kBytes + rank)));
  });
}

TEST(Client, RanksOfDifferentRunsAreNoCheckpoint) {
  FaultFileSystem files;
  for (int run = 0; run < 2; ++run) {
    as_job(files, small_config(), 2, [&](Program& program, uint32_t rank) {
      EXPECT_TRUE(is_ok(program.write(run, kBytes)));
      // The second run ends before rank 1 has written 5 again.
      if (run == 0 || rank == 0) {
        EXPECT_TRUE(is_ok(program.write(5, kBytes)));
      }
      EXPECT_TRUE(is_ok(program.client().finish(true)));
    });
  }
  as_job(files, small_config(), 2, [](Program& program, uint32_t rank) {
    EXPECT_EQ(program.client().newest("demo", 0).value(), 1U);
    EXPECT_TRUE(is_ok(program.restore(1, kBytes)));
    if (rank != 1) return;
    EXPECT_EQ(program.restore(5, kBytes).code(), Code::kDamaged);
  });
}

// ---- Failures

TEST(Client, DamagedBytesAreReadFromTheOtherFolder) {
  FaultFileSystem files;
  Config config = small_config();
  {
    Program program(files, config, true);
    ASSERT_TRUE(is_ok(program.write(1, kBytes)));
    ASSERT_TRUE(is_ok(program.client().finish(true)));
  }
  for (const std::string& path : files.paths()) {
    if (!path.starts_with("/scratch/") || !path.ends_with(".segment")) continue;
    std::vector<std::byte> bytes = files.content(path);
    bytes.at(5000) ^= std::byte{1};
    files.put(path, bytes);
  }
  Program program(files, config, true);
  EXPECT_TRUE(is_ok(program.restore(1, kBytes)));
}

TEST(Client, WithoutScratchCheckpointsGoToThePersistentFolder) {
  FaultFileSystem files;
  files.forbid("/scratch");
  files.inject(
      {.failure = Status(Code::kNoSpace, "no space"), .persists = true, .where = "/scratch"});
  Program program(files, small_config(), true);
  for (int version = 0; version < 8; ++version) ASSERT_TRUE(is_ok(program.write(version, kBytes)));
  EXPECT_TRUE(is_ok(program.client().wait_until_durable()));
  for (int version = 0; version < 8; ++version) {
    EXPECT_TRUE(is_ok(program.restore(version, kBytes)));
  }
}

TEST(Client, WhatCannotBeFlushedIsToldAndStaysCached) {
  FaultFileSystem files;
  files.inject({.failure = Status(Code::kNoSpace, "no space"), .persists = true, .where = "write"});
  Program program(files, small_config(), true);
  ASSERT_TRUE(is_ok(program.write(0, kBytes)));
  EXPECT_EQ(program.client().wait_until_durable().code(), Code::kNoSpace);
  EXPECT_TRUE(is_ok(program.client().wait_until_durable()));  // it was told
  EXPECT_TRUE(is_ok(program.restore(0, kBytes)));
  files.heal();
  ASSERT_TRUE(is_ok(program.write(1, kBytes)));
  EXPECT_TRUE(is_ok(program.client().wait_until_durable()));
}

struct Written {
  uint64_t bytes = 0;
  bool is_durable = false;
};

// Writes, waits and restores at random. Never wrong bytes: right ones, or a failure.
class AnyRun {
 public:
  AnyRun(FaultFileSystem& files, uint64_t seed, bool may_fail)
      : random_(seed), may_fail_(may_fail), program_(files, config(seed), seed % 3 != 0) {}

  void run(std::map<int, Written>& written, int steps) {
    for (int step = 0; step < steps; ++step) {
      const int version = static_cast<int>(random_() % 20);
      switch (random_() % 6) {
        case 0:
        case 1:
        case 2:
          write(written, version);
          break;
        case 3:
          (void)program_.client().hint("demo", version);
          break;
        case 4:
          restore(written, version);
          break;
        default:
          wait(written);
      }
    }
  }
  Program& program() { return program_; }

 private:
  static Config config(uint64_t seed) {
    Config config = small_config();
    if (seed % 2 == 0) config.scratch.clear();
    config.gpu_cache = 20 << 10;
    config.host_cache = 48 << 10;
    config.evictor = static_cast<history::Evictor>(seed / 2 % 4);
    return config;
  }

  void write(std::map<int, Written>& written, int version) {
    if (own_.contains(version)) return;
    // The same in all runs: one that was not reported durable may be an earlier run's.
    const uint64_t bytes = 1 + static_cast<uint64_t>(version) * 7919 % (24 << 10);
    const Status status = program_.write(version, bytes);
    EXPECT_TRUE(may_fail_ || status.ok()) << status.message();
    // It may be the old one or the new one that is there, or none.
    written[version] = {status.ok() ? bytes : 0, false};
    if (status.ok()) own_.insert(version);
  }
  void restore(const std::map<int, Written>& written, int version) {
    const auto found = written.find(version);
    if (found == written.end() || found->second.bytes == 0) return;
    const Status status = program_.restore(version, found->second.bytes);
    EXPECT_NE(status.code(), Code::kTorn) << version << ": " << status.message();
    EXPECT_TRUE(may_fail_ || status.ok()) << version << ": " << status.message();
  }
  void wait(std::map<int, Written>& written) {
    const Status status = program_.client().wait_until_durable();
    EXPECT_TRUE(may_fail_ || status.ok()) << status.message();
    if (!status.ok()) has_failed_ = true;
    for (auto& [version, each] : written) {
      each.is_durable = each.is_durable || (!has_failed_ && own_.contains(version));
    }
  }

  std::mt19937_64 random_;
  const bool may_fail_;
  bool has_failed_ = false;  // since then nothing was reported durable
  Program program_;
  std::set<int> own_;
};

uint64_t seeds() {
  return std::getenv("GPUSNAP_SOAK") != nullptr ? 1000 : 40;
}

// A write that failed may have left a manifest all the same.
TEST(Client, AVersionThatCouldNotBeWrittenMayBeWrittenAgain) {
  FaultFileSystem files;
  Config config = small_config();
  config.scratch.clear();
  config.gpu_cache = config.host_cache = 4096;
  Program program(files, config, true);
  files.inject({.failure = Status(Code::kIo, "broken"), .takes_effect = true, .where = "replace"});
  EXPECT_EQ(program.write(1, kBytes).code(), Code::kIo);
  ASSERT_TRUE(files.exists("/pfs/demo/e1/r0.manifest"));
  ASSERT_TRUE(is_ok(program.write(1, kBytes / 2)));
  EXPECT_TRUE(is_ok(program.restore(1, kBytes / 2)));
}

TEST(Client, FailingFilesNeverMakeWrongBytes) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    FaultFileSystem files;
    files.fail_by_chance({seed, 12, {Status(Code::kIo, "broken"), Status(Code::kNoSpace, "full")}});
    std::map<int, Written> written;
    AnyRun(files, seed, true).run(written, 60);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(Client, WhatWasReportedDurableSurvivesAnyCrash) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    FaultFileSystem files;
    std::map<int, Written> written;
    for (int run = 0; run < 3; ++run) {
      files.inject({.operation = 20 + seed * 37 % 400, .failure = std::nullopt});
      AnyRun any(files, seed + static_cast<uint64_t>(run) * 1000, true);
      any.run(written, 50);
      files.crash(seed);
    }
    Program program(files, small_config(), true);
    std::optional<int> newest;
    for (const auto& [version, each] : written) {
      if (!each.is_durable) continue;
      newest = version;
      const Status status = program.restore(version, each.bytes);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ", version " << version << ": "
                               << status.message();
    }
    if (!newest) continue;
    ASSERT_GE(program.client().newest("demo", 0).value(), static_cast<uint64_t>(*newest));
  }
}

}  // namespace
}  // namespace gpusnap::veloc::test
