// The commit of an increment, or the pruning of chains, is stopped or fails at each of its
// operations in turn: whatever is listed as complete afterwards is the memory that it was made of.
#include <algorithm>

#include "chain_support.h"
#include "fault_file_system.h"

namespace gpusnap::test {
namespace {

// The contents of memory at each epoch, whether its checkpoint is there or not.
using Images = std::map<uint64_t, Parent>;

// One process that takes checkpoints of memory that changes.
class Process {
 public:
  Process(FileSystem& files, const std::string& run, Images& images)
      : images_(images),
        job_{"demo", run, 0, 1, {}, 9 << 10},
        backend_(files),
        store_(std::move(Store::open(files, "/pfs", true).value())),
        journal_(open_journal(backend_, job_)) {
    memory_.allocate(0x1000, 12000);
    memory_.allocate(0x9000, 700);
  }

  Store& store() { return *store_; }
  void restore(uint64_t epoch) { memory_.restore(images_.at(epoch).image); }

  // Full where there is no parent.
  Status take(uint64_t epoch, uint64_t parent) {
    for (uint64_t zone = epoch % 3; zone < 24; zone += 2 + epoch) {
      memory_.write(0x1000, zone, static_cast<std::byte>(epoch));
    }
    Increment increment(backend_, job_, epoch);
    const auto on = parent == 0 ? std::nullopt : std::optional(images_.at(parent));
    increment.save(memory_, on, random_);
    images_[epoch] = {epoch, on ? on->chain + 1 : 0, memory_.image()};
    const Status taken = increment.finish(journal_.get());
    if (taken.ok()) memory_.clean();
    return taken;
  }
  void take_all(const std::vector<uint64_t>& parents) {
    uint64_t epoch = 0;
    for (const uint64_t parent : parents) {
      if (parent != 0 && parent != epoch) restore(parent);
      const Status taken = take(++epoch, parent);
      ASSERT_TRUE(taken.ok()) << taken.message();
    }
  }
  void forget_journal() { journal_.reset(); }

 private:
  Images& images_;
  const Job job_;
  Random random_{1};
  LocalBackend backend_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JournalWriter> journal_;
  DeviceMemory memory_;
};

// Nothing is damaged and whatever is complete is right; gives its epochs, newest first.
std::vector<uint64_t> expect_right(FileSystem& files, const Images& images) {
  std::vector<uint64_t> epochs;
  const auto store = std::move(Store::open(files, "/pfs", true).value());
  const auto infos = store->list("demo");
  EXPECT_TRUE(infos.ok()) << infos.status().message();
  for (const CheckpointInfo& info : infos.value()) {
    EXPECT_NE(info.state, CheckpointState::kDamaged) << info.id << ": " << info.reason;
    if (info.state != CheckpointState::kComplete) continue;
    const Status good = store->verify(info, {});
    EXPECT_TRUE(good.ok()) << good.message();
    EXPECT_TRUE(read_back(*store, info, 0) == images.at(info.epoch).image) << info.id;
    epochs.push_back(info.epoch);
  }
  return epochs;
}

// The chain goes on in the next process; gives its epoch.
uint64_t go_on(FaultFileSystem& files, Images& images) {
  Process next(files, "run2", images);
  const CheckpointInfo newest = next.store().find("demo").value();
  next.restore(newest.epoch);
  const uint64_t epoch = next.store().next_epoch("demo").value();
  const Status taken = next.take(epoch, newest.epoch);
  EXPECT_TRUE(taken.ok()) << taken.message();
  return epoch;
}

size_t operations_of_an_increment() {
  FaultFileSystem files;
  Images images;
  Process process(files, "run1", images);
  process.take_all({0, 1});
  files.heal();
  EXPECT_TRUE(process.take(3, 2).ok());
  return files.operations();
}

// At each of the operations and behind the last, with whatever survives of what was not durable.
// `body(operation, survival)`; `operations` may grow meanwhile.
template <class Body>
void at_every_crash(const size_t& operations, Body&& body) {
  for (size_t operation = 0; operation <= operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                   std::to_string(static_cast<int>(survival)));
      body(operation, survival);
    }
  }
}

// A process whose increment 3 meets its end at an operation. Whether it was told that it is there.
bool die_in_an_increment(FaultFileSystem& files, Images& images, size_t operation) {
  Process process(files, "run1", images);
  process.take_all({0, 1});
  files.inject({operation, std::nullopt, false, false});
  const bool told = process.take(3, 2).ok();
  EXPECT_TRUE(told || files.operations() > operation);
  return told;
}

TEST(ChainCommit, SurvivesACrashAtEveryOperation) {
  const size_t operations = operations_of_an_increment();
  ASSERT_GT(operations, 10U);
  at_every_crash(operations, [&](size_t operation, Survival survival) {
    FaultFileSystem files;
    Images images;
    const bool told = die_in_an_increment(files, images, operation);
    files.crash(survival);
    const auto complete = expect_right(files, images);
    EXPECT_TRUE(contains(complete, 1) && contains(complete, 2));
    EXPECT_TRUE(!told || contains(complete, 3));
    const uint64_t epoch = go_on(files, images);
    const auto after = expect_right(files, images);
    EXPECT_TRUE(contains(after, epoch) && contains(after, 1));
    EXPECT_TRUE(prune_folder(files, "/pfs/demo", 1, false).ok());
    EXPECT_EQ(expect_right(files, images), after) << "all are ancestors of the newest";
  });
}

// The parent's name may not have been durable when the process died that made it.
TEST(ChainCommit, SurvivesACrashWhenItsParentWasNotDurable) {
  const size_t operations = operations_of_an_increment();
  at_every_crash(operations, [&](size_t operation, Survival survival) {
    FaultFileSystem files;
    Images images;
    (void)die_in_an_increment(files, images, operation);
    files.restart_process();
    const uint64_t epoch = go_on(files, images);
    files.crash(survival);
    EXPECT_TRUE(contains(expect_right(files, images), epoch));
  });
}

TEST(ChainCommit, FailsCleanlyWhereAnyOperationFails) {
  const size_t operations = operations_of_an_increment();
  for (size_t operation = 0; operation < operations; ++operation) {
    for (const bool takes_effect : {false, true}) {
      SCOPED_TRACE("operation " + std::to_string(operation) + (takes_effect ? " done" : ""));
      FaultFileSystem files;
      Images images;
      Process process(files, "run1", images);
      process.take_all({0, 1});
      files.inject({operation, Status(Code::kNoSpace, "cannot: disk full"), takes_effect, false});
      const Status taken = process.take(3, 2);
      // Nobody needs to be told that a block log could not be removed.
      EXPECT_TRUE(taken.ok() || taken.code() == Code::kNoSpace) << taken.message();
      files.heal();
      EXPECT_TRUE(contains(expect_right(files, images), taken.ok() ? 3 : 2));
      process.forget_journal();  // it stays failed
      const Status next = process.take(4, taken.ok() ? 3 : 2);
      EXPECT_TRUE(next.ok()) << next.message();
      files.crash(Survival::kNothing);
      const auto complete = expect_right(files, images);
      EXPECT_TRUE(contains(complete, 4) && contains(complete, 2) && contains(complete, 1));
    }
  }
}

TEST(ChainPrune, SurvivesACrashAtEveryOperation) {
  // Checkpoint 6 needs 4 and 3; 1, 2, 5 can go.
  const std::vector<uint64_t> parents = {0, 1, 0, 3, 2, 4};
  const std::vector<uint64_t> kept = {6, 4, 3};
  size_t operations = 1;
  at_every_crash(operations, [&](size_t operation, Survival survival) {
    FaultFileSystem files;
    Images images;
    {
      Process process(files, "run1", images);
      process.take_all(parents);
      files.inject({operation, std::nullopt, false, false});
      const Status pruned = prune_folder(files, "/pfs/demo", 1);
      operations = std::max(operations, pruned.ok() ? operation : operation + 1);
    }
    files.crash(survival);
    const auto complete = expect_right(files, images);
    for (const uint64_t epoch : kept) EXPECT_TRUE(contains(complete, epoch)) << epoch;
    EXPECT_TRUE(prune_folder(files, "/pfs/demo", 1, false).ok());
    EXPECT_EQ(expect_right(files, images), kept);
  });
  EXPECT_GT(operations, 10U);
}

}  // namespace
}  // namespace gpusnap::test
