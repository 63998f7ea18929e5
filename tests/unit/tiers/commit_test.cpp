// A commit, or a pruning, is stopped or fails at each of its operations in turn: whatever is listed
// as complete afterwards restores, and what was complete before still is.
#include <algorithm>
#include <functional>

#include "fault_file_system.h"
#include "support.h"

namespace gpusnap::test {
namespace {

const Job kJob = {"demo", "run1", 0, 1, {9000, 1, 40000, 777}, 24 << 10};

LocalBackend::Options large_slots() {
  LocalBackend::Options options;
  options.slot_bytes = 16 << 10;
  return options;
}

// One process that takes checkpoints with a journal.
struct SavingProcess {
  explicit SavingProcess(FileSystem& files, Job its_job = kJob)
      : backend(files, large_slots()),
        store(std::move(Store::open(files, "/pfs", true).value())),
        job(std::move(its_job)) {
    journal = open_journal(backend, job);
  }
  Status take(uint64_t epoch) { return take_checkpoint(backend, job, epoch, journal.get()); }
  // Waits for ever where a slot is lost.
  void expect_all_slots() {
    std::vector<Slot*> slots;
    for (int i = 0; i < 4; ++i) slots.push_back(backend.pool().acquire().value());
    for (Slot* slot : slots) backend.pool().release(slot);
  }

  LocalBackend backend;
  std::unique_ptr<Store> store;
  Job job;
  std::unique_ptr<JournalWriter> journal;
};

// All checkpoints listed as complete must restore bit for bit. Returns the complete epochs.
std::vector<uint64_t> expect_complete_ones_restore(FileSystem& files) {
  std::vector<uint64_t> epochs;
  auto store = Store::open(files, "/pfs", true);
  if (!store.ok()) {
    ADD_FAILURE() << store.status().message();
    return epochs;
  }
  const auto infos = store.value()->list("demo");
  EXPECT_TRUE(infos.ok()) << infos.status().message();
  for (const CheckpointInfo& info : infos.value()) {
    EXPECT_NE(info.state, CheckpointState::kDamaged) << info.id << ": " << info.reason;
    if (info.state != CheckpointState::kComplete) continue;
    const Status good = store.value()->verify(info, {});
    EXPECT_TRUE(good.ok()) << info.id << ": " << good.message();
    const Status back = restore(*store.value(), info, kJob.ranges);
    EXPECT_TRUE(back.ok()) << info.id << ": " << back.message();
    epochs.push_back(info.epoch);
  }
  return epochs;
}

// Operations of the second checkpoint's commit.
size_t operations_of_a_commit() {
  FaultFileSystem files;
  SavingProcess process(files);
  EXPECT_TRUE(process.take(1).ok());
  files.heal();
  EXPECT_TRUE(process.take(2).ok());
  return files.operations();
}

TEST(Commit, IsMadeOfTheStepsThatTheFormatSays) {
  FaultFileSystem files;
  SavingProcess process(files);
  files.heal();
  ASSERT_TRUE(process.take(1).ok());
  const auto place = [&](const std::string& what) {
    const auto& log = files.log();
    const auto last = std::find_if(log.rbegin(), log.rend(), [&](const std::string& entry) {
      return entry.find(what) != std::string::npos;
    });
    EXPECT_NE(last, log.rend()) << what;
    return log.rend() - last;
  };
  const auto segments = place(".segment");
  EXPECT_EQ(segments, place("sync /pfs/demo/e1/r0-run1-"));
  EXPECT_LT(place("sync /pfs/demo/run1-r0.journal"), place("create /pfs/demo/e1/r0.manifest"));
  EXPECT_LT(segments, place("create /pfs/demo/e1/r0.manifest"));
  std::vector<std::string> log = files.log();
  ASSERT_GT(log.size(), 7U);
  EXPECT_EQ(log.back(), "remove /pfs/demo/e1/r0-run1-0.blocks");
  log.pop_back();
  EXPECT_EQ(std::count(log.begin(), log.end() - 6, "sync folder /pfs/demo"), 1)
      << "the journal's name";
  const std::vector<std::string> expected = {"sync folder /pfs/demo/e1",
                                             "create /pfs/demo/e1/r0.manifest.run1.tmp",
                                             "append /pfs/demo/e1/r0.manifest.run1.tmp",
                                             "sync /pfs/demo/e1/r0.manifest.run1.tmp",
                                             "rename /pfs/demo/e1/r0.manifest.run1.tmp",
                                             "sync folder /pfs/demo/e1"};
  EXPECT_EQ(std::vector<std::string>(log.end() - 6, log.end()), expected);
}

TEST(Commit, SurvivesACrashAtEveryOperation) {
  const size_t operations = operations_of_a_commit();
  ASSERT_GT(operations, 15U);
  for (size_t operation = 0; operation <= operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                   std::to_string(static_cast<int>(survival)));
      FaultFileSystem files;
      bool told = false;
      {
        SavingProcess process(files);
        ASSERT_TRUE(process.take(1).ok());
        files.inject({operation, std::nullopt, false, false});
        told = process.take(2).ok();
        EXPECT_TRUE(told || files.operations() > operation);
        process.expect_all_slots();
      }
      files.crash(survival);
      const auto complete = expect_complete_ones_restore(files);
      EXPECT_TRUE(contains(complete, 1));
      EXPECT_TRUE(!told || contains(complete, 2));
      // The next run goes on and clears up.
      Job job = kJob;
      job.run = "run2";
      SavingProcess next(files, job);
      const uint64_t epoch = next.store->next_epoch("demo").value();
      const Status taken = next.take(epoch);
      ASSERT_TRUE(taken.ok()) << taken.message();
      ASSERT_TRUE(prune_folder(files, "/pfs/demo", 1).ok());
      EXPECT_EQ(expect_complete_ones_restore(files), std::vector<uint64_t>{epoch});
      for (const std::string& path : files.paths()) {
        EXPECT_EQ(path.find("run1"), std::string::npos) << path;
      }
    }
  }
}

struct Failure {
  const char* name;
  Status status;
};

std::vector<Failure> failures() {
  return {{"EIO", Status(Code::kIo, "cannot write it: Input/output error")},
          {"ENOSPC", Status(Code::kNoSpace, "cannot write it: No space left on device")},
          {"EDQUOT", Status(Code::kNoSpace, "cannot write it: Disk quota exceeded")}};
}

// The number of leftover files that only the failed checkpoint can have made.
size_t files_of_epoch(const FaultFileSystem& files, uint64_t epoch) {
  const auto paths = files.paths();
  return static_cast<size_t>(std::count_if(paths.begin(), paths.end(), [&](const auto& path) {
    return path.find("/e" + std::to_string(epoch) + "/") != std::string::npos;
  }));
}

void fail_at(size_t operation, const Status& failure, bool takes_effect, bool persists) {
  for (const Survival survival : {Survival::kNothing, Survival::kSomeNames}) {
    FaultFileSystem files;
    SavingProcess process(files);
    ASSERT_TRUE(process.take(1).ok());
    files.inject({operation, failure, takes_effect, persists});
    const Status taken = process.take(2);
    // Nobody needs to be told that a block log could not be removed.
    if (!taken.ok()) {
      EXPECT_EQ(taken.code(), failure.code());
      EXPECT_EQ(taken.message(), failure.message());
    }
    process.expect_all_slots();
    files.heal();
    const auto complete = expect_complete_ones_restore(files);
    EXPECT_TRUE(contains(complete, 1));
    EXPECT_TRUE(!taken.ok() || contains(complete, 2));
    // One that was made although making it failed cannot be known as ours.
    if (!taken.ok() && !persists && !takes_effect) {
      EXPECT_EQ(files_of_epoch(files, 2), 0U);
    }
    // A journal that has failed stays failed; without one the program's next checkpoint is taken.
    process.journal.reset();
    const Status next = process.take(3);
    EXPECT_TRUE(next.ok()) << next.message();
    files.crash(survival);
    EXPECT_TRUE(contains(expect_complete_ones_restore(files), 1));
    EXPECT_TRUE(contains(expect_complete_ones_restore(files), 3));
  }
}

TEST(Commit, FailsCleanlyWhereAnyOperationFails) {
  const size_t operations = operations_of_a_commit();
  for (size_t operation = 0; operation < operations; ++operation) {
    for (const bool takes_effect : {false, true}) {
      for (const bool persists : {false, true}) {
        const Failure failure = failures()[(operation + (persists ? 1 : 0)) % failures().size()];
        SCOPED_TRACE("operation " + std::to_string(operation) + " " + failure.name +
                     (takes_effect ? " with effect" : "") + (persists ? " and all after" : ""));
        fail_at(operation, failure.status, takes_effect, persists);
      }
    }
  }
}

TEST(Commit, SurvivesACrashRightAfterAFailure) {
  const size_t operations = operations_of_a_commit();
  for (size_t operation = 0; operation < operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      for (const bool takes_effect : {false, true}) {
        SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                     std::to_string(static_cast<int>(survival)));
        FaultFileSystem files;
        bool told = false;
        {
          SavingProcess process(files);
          ASSERT_TRUE(process.take(1).ok());
          files.inject({operation, Status(Code::kIo, "cannot: EIO"), takes_effect, false});
          told = process.take(2).ok();
        }
        files.crash(survival);
        const auto complete = expect_complete_ones_restore(files);
        EXPECT_TRUE(contains(complete, 1));
        EXPECT_TRUE(!told || contains(complete, 2));
      }
    }
  }
}

void three_checkpoints(SavingProcess& process) {
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) ASSERT_TRUE(process.take(epoch).ok());
}

TEST(Prune, SurvivesACrashAtEveryOperation) {
  size_t operations = 1;
  for (size_t operation = 0; operation <= operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                   std::to_string(static_cast<int>(survival)));
      FaultFileSystem files;
      {
        SavingProcess process(files);
        three_checkpoints(process);
        files.inject({operation, std::nullopt, false, false});
        const Status pruned = prune_folder(files, "/pfs/demo", 1);
        if (pruned.ok()) operations = operation;
        operations = std::max(operations, pruned.ok() ? operation : operation + 1);
      }
      files.crash(survival);
      EXPECT_TRUE(contains(expect_complete_ones_restore(files), 3));
      SavingProcess next(files, {"demo", "run2", 0, 1, kJob.ranges, kJob.segment_bytes});
      ASSERT_TRUE(prune_folder(files, "/pfs/demo", 1).ok());
      EXPECT_EQ(expect_complete_ones_restore(files), std::vector<uint64_t>{3});
      EXPECT_EQ(files_of_epoch(files, 1) + files_of_epoch(files, 2), 0U);
    }
  }
  EXPECT_GT(operations, 8U);
}

TEST(Prune, SaysWhatItCouldNotRemove) {
  FaultFileSystem files;
  SavingProcess process(files);
  three_checkpoints(process);
  files.inject({0, Status(Code::kPermission, "cannot remove it: Permission denied"), false, true});
  const Status pruned = prune_folder(files, "/pfs/demo", 1);
  EXPECT_EQ(pruned.code(), Code::kPermission);
  files.heal();
  EXPECT_EQ(expect_complete_ones_restore(files).size(), 3U);
}

}  // namespace
}  // namespace gpusnap::test
