// SPDX-License-Identifier: Apache-2.0
// The direct way to local tiers: which way a run goes, the library, and what becomes of a run where
// it fails. The library is the stand-in of tests/support/cufile, the driver is simcuda.
#include "interpose/direct/direct_offload.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"
#include "tiers/format.h"

namespace gpusnap {
namespace {

constexpr uint64_t kRun = 4 << 20;

const Driver& linked_driver() {
  static const Driver driver = [] {
    Driver found;
    found.cuCtxGetCurrent = cuCtxGetCurrent;
    found.cuCtxPushCurrent_v2 = cuCtxPushCurrent_v2;
    found.cuCtxPopCurrent_v2 = cuCtxPopCurrent_v2;
    return found;
  }();
  return driver;
}

void end(DirectChoice& choice, SaveWay way, double bytes_per_ns, uint64_t runs) {
  for (; runs > 0; --runs) {
    choice.ended(way, kRun, static_cast<uint64_t>(static_cast<double>(kRun) / bytes_per_ns));
  }
}
// As many runs as it wants, each its way. How many of them went directly.
uint64_t go_on(DirectChoice& choice, double staged, double direct, uint64_t runs) {
  uint64_t went_directly = 0;
  for (; runs > 0; --runs) {
    const SaveWay way = choice.next();
    went_directly += way == SaveWay::kDirect ? 1 : 0;
    end(choice, way, way == SaveWay::kDirect ? direct : staged, 1);
  }
  return went_directly;
}

TEST(DirectChoiceTest, TriesBothFirst) {
  DirectChoice choice;
  EXPECT_EQ(choice.next(), SaveWay::kDirect);
  end(choice, SaveWay::kDirect, 1, DirectChoice::kTrial);
  EXPECT_EQ(choice.next(), SaveWay::kStaged);
  end(choice, SaveWay::kStaged, 3, DirectChoice::kTrial);
  EXPECT_EQ(choice.next(), SaveWay::kStaged);
}

TEST(DirectChoiceTest, ALittleFasterIsNotEnough) {
  DirectChoice choice;
  EXPECT_EQ(go_on(choice, 1.1, 1, 1000), 1000 - 4 * (1 + (1000 - 8) / 132))
      << "stays with the first";
  DirectChoice other;
  EXPECT_LT(go_on(other, 1.3, 1, 1000), 100U);
}

TEST(DirectChoiceTest, LooksAgainRarely) {
  DirectChoice choice;
  (void)go_on(choice, 5, 1, 2 * DirectChoice::kTrial);
  const uint64_t runs = 10 * (DirectChoice::kBetweenTrials + DirectChoice::kTrial);
  EXPECT_EQ(go_on(choice, 5, 1, runs), 10 * DirectChoice::kTrial);
}

TEST(DirectChoiceTest, FollowsWhatChanges) {
  DirectChoice choice;
  (void)go_on(choice, 5, 1, 300);
  EXPECT_GT(go_on(choice, 0.5, 1, 1000), 700U) << "staging memory has become slow";
  EXPECT_LT(go_on(choice, 5, 1, 1000), 300U) << "and fast again";
}

TEST(DirectChoiceTest, WhatTookNoTimeOrNoBytesSaysNothing) {
  DirectChoice choice;
  for (int i = 0; i < 100; ++i) {
    choice.ended(SaveWay::kDirect, kRun, 0);
    choice.ended(SaveWay::kDirect, 0, 1000);
  }
  EXPECT_EQ(choice.next(), SaveWay::kDirect);
}

// Runs that end late, by the way that is not next any more, neither begin nor end a trial.
TEST(DirectChoiceTest, WhatEndsLateDecidesNothing) {
  DirectChoice choice;
  end(choice, SaveWay::kDirect, 1, DirectChoice::kTrial);
  end(choice, SaveWay::kDirect, 1, 100);
  EXPECT_EQ(choice.next(), SaveWay::kStaged);
}

// The orders of the stand-in, for as long as this lives.
class Told {
 public:
  Told(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Told() { ::unsetenv(name_); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

 private:
  const char* const name_;
};

Settings settings(DirectUse direct = DirectUse::kAlways) {
  Settings settings;
  settings.direct = direct;
  settings.tiers.ssd = {{"/ssd", 1 << 30}};
  return settings;
}

TEST(DirectStorageTest, IsWantedWhereThereIsATierAndWhatIsWrittenIsCompared) {
  EXPECT_TRUE(DirectStorage::is_wanted(settings(DirectUse::kAuto)));
  EXPECT_FALSE(DirectStorage::is_wanted(settings(DirectUse::kOff)));
  Settings other = settings();
  other.tiers.ssd.clear();
  EXPECT_FALSE(DirectStorage::is_wanted(other));
  other = settings();
  other.tiers.policy = PlacementPolicy::kCacheOnly;
  EXPECT_FALSE(DirectStorage::is_wanted(other));
  other = settings();
  other.dirty_from_calls = true;
  EXPECT_FALSE(DirectStorage::is_wanted(other));
  other = settings();
  other.compress.mode = CompressionSetting::Mode::kLevel;
  EXPECT_FALSE(DirectStorage::is_wanted(other));
}

TEST(DirectStorageTest, WithoutALibraryThereIsNone) {
  EXPECT_EQ(DirectStorage::open(settings(), "/nowhere/libcufile.so.0"), nullptr);
  EXPECT_EQ(DirectStorage::open(settings(), "libc.so.6"), nullptr) << "which lacks its functions";
  EXPECT_EQ(DirectStorage::open(settings(DirectUse::kOff), STAND_IN_CUFILE), nullptr);
  const Told told("CUFILE_REFUSES", "open");
  EXPECT_EQ(DirectStorage::open(settings(), STAND_IN_CUFILE), nullptr);
}

TEST(DirectStorageTest, AFailureIsForGood) {
  const auto storage = DirectStorage::open(settings(), STAND_IN_CUFILE);
  ASSERT_NE(storage, nullptr);
  EXPECT_TRUE(storage->usable());
  EXPECT_TRUE(storage->chosen());
  storage->fail({Code::kIo, "a failure"});
  EXPECT_FALSE(storage->usable());
  EXPECT_FALSE(storage->chosen());
}

TEST(DirectStorageTest, AutoGoesByWhatWasMeasured) {
  const auto storage = DirectStorage::open(settings(DirectUse::kAuto), STAND_IN_CUFILE);
  ASSERT_NE(storage, nullptr);
  EXPECT_TRUE(storage->chosen());
  for (uint64_t i = 0; i < DirectChoice::kTrial; ++i) storage->ended(SaveWay::kDirect, kRun, 1000);
  EXPECT_FALSE(storage->chosen()) << "the other one is tried";
}

// Gives files of a folder.
class FileSink final : public DirectSink {
 public:
  explicit FileSink(std::string folder) : folder_(std::move(folder)) {}

  Answer next_file(File& file) override {
    if (answer == Answer::kFile) {
      file = {folder_ + "/" + std::to_string(given), kFirstDirectChunk + given, room};
      std::ofstream(file.path) << std::string(kSegmentHeaderBytes, 'h');
      ++given;
    }
    return answer;
  }
  void add(DirectChunk chunk, const std::string& path) override {
    added.emplace_back(std::move(chunk), path);
  }
  void give_back(const std::string& path) override {
    ++returned;
    std::filesystem::remove(path);
  }

  Answer answer = Answer::kFile;
  uint64_t room = 64 << 10;
  uint32_t given = 0;
  int returned = 0;
  std::vector<std::pair<DirectChunk, std::string>> added;

 private:
  const std::string folder_;
};

class DirectOffloadTest : public simcuda::test::DriverTest {
 protected:
  static constexpr uint64_t kZone = 4096;
  static constexpr uint64_t kBuffer = 8 * kZone;

  void SetUp() override {
    DriverTest::SetUp();
    std::string name = std::filesystem::temp_directory_path() / "gpusnap-direct-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    sink_ = std::make_unique<FileSink>(folder_);
    ASSERT_EQ(cuMemAlloc_v2(&buffer_, kBuffer), CUDA_SUCCESS);
    std::vector<unsigned char> bytes(kBuffer);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
    ASSERT_EQ(cuMemcpyHtoD_v2(buffer_, bytes.data(), bytes.size()), CUDA_SUCCESS);
    begin();
  }
  void TearDown() override {
    offload_.reset();
    std::filesystem::remove_all(folder_);
    DriverTest::TearDown();
  }
  void begin() {
    offload_.reset();
    storage_ = DirectStorage::open(settings(), STAND_IN_CUFILE);
    ASSERT_NE(storage_, nullptr);
    offload_ = std::make_unique<DirectOffload>(
        *storage_, *sink_, DirectOffload::Buffer{buffer_, kBuffer, kZone, 2 << 20, context_});
  }
  static uint64_t fingerprint_of(uint32_t range, uint64_t offset) { return range * 1000 + offset; }
  std::optional<uint64_t> collect(std::chrono::seconds later = {}) {
    return offload_->collect(DirectOffload::Clock::now() + later, fingerprint_of);
  }
  // The thread's part: calls are made until the one that is waited for has ended.
  uint64_t make_calls() {
    for (;;) {
      if (const auto written = collect()) return *written;
      storage_->calls().make_next(linked_driver());
    }
  }
  // With an open file, where there is one to be had.
  uint64_t room() {
    const uint64_t room = offload_->room();
    if (!offload_->is_calling()) return room;
    (void)make_calls();
    return offload_->room();
  }

  static unsigned char byte_at(uint64_t place) { return static_cast<unsigned char>(place * 7 + 1); }

  // Bytes that were written.
  uint64_t run(std::vector<TransferPiece> pieces) {
    begin_write(std::move(pieces));
    EXPECT_FALSE(collect().has_value()) << "the thread has not made it yet";
    return make_calls();
  }
  void begin_write(std::vector<TransferPiece> pieces) {
    EXPECT_GT(room(), 0U);
    auto transfer = std::make_shared<Transfer>();
    transfer->pieces = std::move(pieces);
    offload_->begin(transfer);
    EXPECT_EQ(offload_->room(), 0U) << "one at a time";
    offload_->write();
    EXPECT_EQ(offload_->room(), 0U) << "the buffer is in use until the write has ended";
    EXPECT_FALSE(offload_->idle());
  }

  std::string content(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  CUdeviceptr buffer_ = 0;
  std::unique_ptr<FileSink> sink_;
  std::unique_ptr<DirectStorage> storage_;
  std::unique_ptr<DirectOffload> offload_;
};

TEST_F(DirectOffloadTest, WritesWholeZonesAndLeavesTheRest) {
  EXPECT_EQ(run({{2, 3 * kZone, 2 * kZone + 100, 0, false}}), 2 * kZone);
  ASSERT_EQ(offload_->left().size(), 1U);
  const TransferPiece& left = offload_->left().front();
  EXPECT_EQ(left.offset, 5 * kZone);
  EXPECT_EQ(left.place, 2 * kZone);
  EXPECT_EQ(left.size, 100U);
  EXPECT_EQ(offload_->room(), 0U) << "the buffer is in use";
  offload_->left_has_gone();
  EXPECT_FALSE(offload_->idle()) << "the file is not handed over";
  offload_->close_file();
  EXPECT_TRUE(offload_->idle());
  ASSERT_EQ(sink_->added.size(), 1U);
  const auto& [chunk, path] = sink_->added.front();
  EXPECT_EQ(chunk.number, kFirstDirectChunk);
  EXPECT_EQ(chunk.bytes(), 2 * kZone);
  EXPECT_EQ(chunk.pieces.front().range, 2U);
  EXPECT_EQ(chunk.fingerprints, std::vector<uint64_t>({2000 + 3 * kZone, 2000 + 4 * kZone}));
  const std::string bytes = content(path);
  ASSERT_EQ(bytes.size(), kSegmentHeaderBytes + 2 * kZone);
  for (uint64_t i = 0; i < 2 * kZone; ++i) {
    ASSERT_EQ(static_cast<unsigned char>(bytes[kSegmentHeaderBytes + i]), byte_at(i)) << i;
  }
}

TEST_F(DirectOffloadTest, WhatCallsHaveTakenOverIsLeftOut) {
  EXPECT_EQ(run({{0, 0, kZone, 0, false},
                 {0, kZone, kZone, kZone, true},
                 {0, 2 * kZone, 2 * kZone, 2 * kZone, false}}),
            3 * kZone);
  offload_->close_file();
  const auto& [chunk, path] = sink_->added.front();
  ASSERT_EQ(chunk.pieces.size(), 2U);
  EXPECT_EQ(chunk.pieces[1].offset, 2 * kZone);
  const std::string bytes = content(path);
  EXPECT_EQ(static_cast<unsigned char>(bytes[kSegmentHeaderBytes + kZone]), byte_at(2 * kZone));
}

TEST_F(DirectOffloadTest, AFullFileIsHandedOver) {
  sink_->room = 3 * kZone + 1;
  EXPECT_EQ(room(), 3 * kZone);
  EXPECT_EQ(run({{0, 0, 3 * kZone, 0, false}}), 3 * kZone);
  EXPECT_EQ(sink_->added.size(), 1U);
  EXPECT_TRUE(offload_->idle());
  EXPECT_EQ(run({{0, 3 * kZone, kZone, 0, false}}), kZone);
  EXPECT_EQ(sink_->given, 2U);
}

TEST_F(DirectOffloadTest, WhatFailsIsLeftAndWhatWasWrittenIsHandedOver) {
  for (const char* failure : {"CUFILE_FAILS_AT", "CUFILE_SHORT_AT"}) {
    const Told told(failure, "2");
    begin();
    sink_->added.clear();
    EXPECT_EQ(run({{0, 0, 2 * kZone, 0, false}}), 2 * kZone);
    EXPECT_EQ(run({{0, 2 * kZone, 4 * kZone, 0, false}}), 0U) << failure;
    EXPECT_FALSE(storage_->usable());
    ASSERT_EQ(offload_->left().size(), 1U);
    EXPECT_EQ(offload_->left().front().size, 4 * kZone);
    ASSERT_EQ(sink_->added.size(), 1U);
    EXPECT_EQ(sink_->added.front().first.bytes(), 2 * kZone);
    EXPECT_FALSE(offload_->takes_runs());
    offload_->left_has_gone();
    EXPECT_TRUE(offload_->idle());
  }
}

TEST_F(DirectOffloadTest, AFileThatCannotBeRegisteredEndsIt) {
  const Told told("CUFILE_REFUSES", "file");
  EXPECT_EQ(room(), 0U);
  EXPECT_FALSE(storage_->usable());
  EXPECT_EQ(sink_->returned, 1);
}

TEST_F(DirectOffloadTest, ABufferThatCannotBeRegisteredEndsIt) {
  const Told told("CUFILE_REFUSES", "buffer");
  begin();
  EXPECT_FALSE(storage_->usable());
  EXPECT_EQ(offload_->room(), 0U);
}

TEST_F(DirectOffloadTest, WithoutAFileRunsGoTheOtherWay) {
  sink_->answer = DirectSink::Answer::kNone;
  EXPECT_EQ(offload_->room(), 0U);
  EXPECT_FALSE(offload_->takes_runs());
  EXPECT_TRUE(storage_->usable());
}

TEST_F(DirectOffloadTest, AnAnswerIsWaitedForWhereAllIsToGoDirectly) {
  sink_->answer = DirectSink::Answer::kNotYet;
  EXPECT_EQ(offload_->room(), 0U);
  EXPECT_TRUE(offload_->takes_runs());
  sink_->answer = DirectSink::Answer::kFile;
  EXPECT_GT(room(), 0U);
  offload_->no_more_runs();
  EXPECT_FALSE(offload_->takes_runs());
}

// After the limit the run goes the other way, and nobody calls the library any more. The thread
// still has the file and what it was to write.
TEST_F(DirectOffloadTest, AWriteThatDoesNotReturnIsLeft) {
  EXPECT_EQ(run({{0, 0, kZone, 0, false}}), kZone);
  const std::string held = folder_ + "/held";
  const Told told("CUFILE_HOLD", held.c_str());
  std::ofstream{held};
  begin_write({{0, kZone, 2 * kZone, 0, false}});
  std::jthread thread([this] { storage_->calls().make_next(linked_driver()); });
  while (!storage_->calls().is_under_way()) std::this_thread::yield();
  EXPECT_FALSE(collect(DirectOffload::kLongestCall - std::chrono::seconds(5)).has_value());
  EXPECT_TRUE(storage_->usable());
  EXPECT_EQ(collect(DirectOffload::kLongestCall), 0U);
  EXPECT_FALSE(storage_->usable());
  EXPECT_TRUE(storage_->is_stuck());
  ASSERT_EQ(offload_->left().size(), 1U);
  EXPECT_EQ(offload_->left().front().size, 2 * kZone);
  ASSERT_EQ(sink_->added.size(), 1U);
  EXPECT_EQ(sink_->added.front().first.bytes(), kZone);
  offload_->left_has_gone();
  EXPECT_TRUE(offload_->idle());
  offload_.reset();
  std::filesystem::remove(held);
  thread.join();
  EXPECT_FALSE(storage_->is_stuck());
}

TEST_F(DirectOffloadTest, AWriteBehindOneThatDoesNotReturnIsWithdrawn) {
  begin_write({{0, 0, kZone, 0, false}});
  EXPECT_EQ(collect(DirectOffload::kLongestCall), 0U);
  EXPECT_FALSE(storage_->usable());
  EXPECT_FALSE(storage_->is_stuck());
  EXPECT_EQ(offload_->left().size(), 1U);
  EXPECT_EQ(sink_->returned, 1);
}

TEST_F(DirectOffloadTest, WhatIsNotUsedIsGivenBack) {
  EXPECT_GT(room(), 0U);
  offload_.reset();
  EXPECT_EQ(sink_->returned, 1);
  begin();
  EXPECT_EQ(run({{0, 0, kZone, 0, false}}), kZone);
  offload_->give_up();
  EXPECT_EQ(sink_->returned, 2);
  EXPECT_TRUE(sink_->added.empty());
  EXPECT_TRUE(offload_->idle());
}

}  // namespace
}  // namespace gpusnap
