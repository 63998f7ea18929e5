// Cases that a backend that takes over, or comes after a crash, must not get wrong.
#include <algorithm>
#include <future>
#include <thread>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/backend/block_log.h"
#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/journal_receiver.h"
#include "tiers/clock.h"

namespace gpusnap::test {
namespace {

constexpr const char* kJournal = "/j/abc123-r0.journal";

// A journal that is told to nobody but the test.
struct OneJournal {
  OneJournal(FileSystem& files, uint64_t before) {
    JournalReceiver::Setting setting;
    setting.file = kJournal;
    setting.before = before;
    JournalReceiver::Actions actions;
    actions.progress = [](uint64_t) {};
    actions.ended = [this](const Status& status) { ended.set_value(status); };
    journal = JournalReceiver::start(files, std::move(setting), std::move(actions)).value();
  }
  std::promise<Status> ended;
  std::shared_ptr<JournalReceiver> journal;
};

TEST(TakenOverJournal, WhatCouldNotBeWrittenStaysInTheAreaUntilThatWasTold) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder("/j").ok());
  files.inject({0, device_failure(EIO), false, true});
  const std::vector<std::byte> bytes(100);
  std::atomic<int> released{0};
  OneJournal one(files, 0);
  one.journal->add({0, 0, bytes, [&](bool written) { released += written ? 100 : 1; }});
  EXPECT_EQ(one.ended.get_future().get().code(), Code::kIo);
  EXPECT_EQ(released, 0) << "another backend would take it for written";
  one.journal.reset();
  EXPECT_EQ(released, 1);
}

TEST(TakenOverJournal, IsNotBegunAgainWhereItsFileHasGone) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder("/j").ok());
  const std::vector<std::byte> bytes(100);
  OneJournal one(files, 2);
  one.journal->add({1, 100, bytes, [](bool) {}});
  one.journal->all_found();
  one.journal->seal(2);
  EXPECT_EQ(one.ended.get_future().get().code(), Code::kNotFound);
  EXPECT_FALSE(files.exists(kJournal));
}

// A checkpoint in the store, and another part of its place.
class TakenOver : public ::testing::Test {
 protected:
  void SetUp() override {
    LocalBackend backend(files_);
    const Status taken = take_checkpoint(backend, job_, 1, nullptr);
    ASSERT_TRUE(taken.ok()) << taken.message();
  }

  // Takes the checkpoint up; returns the outcome.
  Status take_up(const std::string& run, bool is_leftover, uint64_t epoch = 1) {
    CheckpointReceiver::Setting setting;
    setting.text.store = "/pfs";
    setting.text.job = job_.name;
    setting.text.run = run;
    setting.text.epoch = epoch;
    setting.compression =
        std::make_shared<Compression>(setting.text.compression, monotonic_clock());
    setting.is_leftover = is_leftover;
    if (is_leftover) setting.chunk_folders = {"/ssd/demo/e1"};
    std::promise<Status> ended;
    CheckpointReceiver::Actions actions;
    actions.ready = [](const std::vector<FoundChunk>&) {};
    actions.held = [] {};
    actions.committed = [this] { ++committed_; };
    actions.ended = [&](const Status& status) { ended.set_value(status); };
    const auto part =
        CheckpointReceiver::start(files_, std::move(setting), std::move(actions)).value();
    return ended.get_future().get();
  }

  void expect_whole() {
    const auto store = std::move(Store::open(files_, "/pfs", false).value());
    const auto found = store->find("demo@1");
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->state, CheckpointState::kComplete) << found->reason;
    EXPECT_TRUE(restore(*store, found.value(), job_.ranges).ok());
  }

  FaultFileSystem files_;
  Job job_;
  int committed_ = 0;
};

TEST_F(TakenOver, OneThatWasCommittedKeepsItsFilesWhateverFails) {
  files_.inject({0, device_failure(EIO), false, true});
  EXPECT_FALSE(take_up(job_.run, false).ok());
  files_.heal();
  expect_whole();
  EXPECT_TRUE(take_up(job_.run, false).ok());
  EXPECT_EQ(committed_, 1);
  expect_whole();
}

TEST_F(TakenOver, ALeftoverOfOneThatWasCommittedPrunesNothing) {
  files_.put("/ssd/demo/e1/r0-abc123-0.blocks", {});
  EXPECT_TRUE(take_up(job_.run, true).ok());
  EXPECT_EQ(committed_, 0);
  EXPECT_FALSE(files_.exists("/ssd/demo/e1/r0-abc123-0.blocks"));
  expect_whole();
}

TEST_F(TakenOver, ALeftoverWhoseNumberIsAnotherRunsGoes) {
  files_.put("/ssd/demo/e1/r0-run9-0.blocks", {});
  EXPECT_FALSE(take_up("run9", true).ok());
  EXPECT_FALSE(files_.exists("/ssd/demo/e1/r0-run9-0.blocks"));
  expect_whole();
}

TEST_F(TakenOver, ALeftoverWaitsForAStoreThatCanBeWrittenTo) {
  files_.put("/ssd/demo/e1/r0-run9-0.blocks", {});
  files_.inject({0, device_failure(ENOSPC), false, true});
  EXPECT_EQ(take_up("run9", true, 2).code(), Code::kNoSpace);
  EXPECT_TRUE(files_.exists("/ssd/demo/e1/r0-run9-0.blocks"));
}

// Or it would be taken up again when the checkpoint has been pruned, and with it its journal.
TEST(LocalTier, ACrashLeavesNoLogThatDoesNotKnowOfTheCommit) {
  FaultFileSystem files;
  LocalBackend::Options options;
  options.backend.ssd = {{"/ssd", 1 << 20}};
  options.backend.policy = PlacementPolicy::kSsdOnly;
  options.backend.chunk_bytes = 4096;
  options.backend.name = "node";
  {
    LocalBackend backend(files, options);
    const Status taken = take_checkpoint(backend, {}, 1, nullptr);
    ASSERT_TRUE(taken.ok()) << taken.message();
    const auto& log = files.log();
    EXPECT_TRUE(std::ranges::any_of(
        log, [](const std::string& entry) { return entry.ends_with(".blocks"); }));
  }
  files.crash(Survival::kNothing);
  for (const std::string& path : files.paths()) {
    if (!path.ends_with(".blocks")) continue;
    BlockLog log;
    EXPECT_TRUE(read_block_log(files, path, log).ok()) << path;
    EXPECT_TRUE(log.committed) << path;
  }
}

}  // namespace
}  // namespace gpusnap::test
