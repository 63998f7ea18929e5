#include <algorithm>
#include <thread>

#include "fault_file_system.h"
#include "support.h"

namespace gpusnap::test {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> open() {
    auto store = Store::open(files_, "/pfs/store", true);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store.value());
  }
  Status take(uint64_t epoch, JournalWriter* journal = nullptr) {
    return take_checkpoint(backend_, job_, epoch, journal);
  }
  Status prune(uint32_t keep, bool own = true) {
    return prune_folder(files_, "/pfs/store/demo", keep, own);
  }
  std::vector<std::string> states(Store& store) {
    std::vector<std::string> states;
    const auto infos = store.list(job_.name);
    EXPECT_TRUE(infos.ok()) << infos.status().message();
    for (const CheckpointInfo& info : infos.value()) {
      states.push_back(info.id + " " + name_of(info.state));
    }
    return states;
  }
  size_t count(const std::string& part) {
    const auto paths = files_.paths();
    return static_cast<size_t>(std::count_if(
        paths.begin(), paths.end(),
        [&](const std::string& path) { return path.find(part) != std::string::npos; }));
  }
  static std::vector<std::byte> bytes(const char* text) {
    const auto view = std::as_bytes(std::span(text, std::strlen(text)));
    return {view.begin(), view.end()};
  }

  FaultFileSystem files_;
  static LocalBackend::Options options() {
    LocalBackend::Options options;
    options.store = "/pfs/store";
    return options;
  }
  LocalBackend backend_{files_, options()};
  StagingPool& pool_ = backend_.pool();
  Job job_;
};

TEST_F(StoreTest, WhatWasSavedComesBack) {
  const auto store = open();
  const auto journal = open_journal(backend_, job_);
  const Status taken = take(1, journal.get());
  ASSERT_TRUE(taken.ok()) << taken.message();
  const auto info = store->find("demo");
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->id, "demo@1");
  EXPECT_EQ(info->state, CheckpointState::kComplete);
  EXPECT_EQ(info->bytes, 10000U + 1 + (64 << 10) + 777);
  EXPECT_EQ(info->time_unix_ns, 1'000'000'000);
  EXPECT_GT(info->ranks.front().segments.size(), 1U);
  EXPECT_TRUE(restore(*store, info.value(), job_.ranges).ok());
  uint64_t last = 0;
  uint64_t total = 0;
  const Status good = store->verify(info.value(), [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  EXPECT_TRUE(good.ok()) << good.message();
  EXPECT_GE(last, info->bytes);
  EXPECT_LE(last, total);
  const auto reader =
      JournalReader::open(files_, store->job_folder("demo"), info->ranks[0].journal);
  ASSERT_TRUE(reader.ok());
  std::vector<std::byte> stream(journal_bytes(1).size());
  ASSERT_TRUE(reader.value()->read(stream).ok());
  EXPECT_EQ(stream, journal_bytes(1));
  EXPECT_EQ(count(".tmp"), 0U);
}

TEST_F(StoreTest, ManifestKeepsEverything) {
  const auto store = open();
  ASSERT_TRUE(take(3).ok());
  const auto info = store->find("demo@3");
  ASSERT_TRUE(info.ok());
  const Manifest& m = info->ranks.front();
  EXPECT_EQ(m.program.arguments, manifest_of(job_, 3).program.arguments);
  EXPECT_EQ(m.program.path, "/bin/solver");
  EXPECT_EQ(m.program.driver_version, 13000U);
  EXPECT_EQ(m.ranges[3].name, "counter");
  EXPECT_EQ(m.ranges[3].kind, 1);
  EXPECT_EQ(m.ranges[2].call_site, 14U);
  EXPECT_EQ(m.calls, 300U);
  EXPECT_EQ(m.launches, 30U);
  EXPECT_EQ(m.meanwhile, (CallCounts{6, 5, 4, 3, 2, 3}));
  EXPECT_EQ(m.waits, (Waits{1, 2, 3}));
}

TEST_F(StoreTest, ListingPassesForeignFilesOver) {
  const auto store = open();
  ASSERT_TRUE(take(1).ok());
  for (const char* path :
       {"/pfs/store/readme", "/pfs/store/other job/e1/r0.manifest", "/pfs/store/demo/notes",
        "/pfs/store/demo/e01/r0.manifest", "/pfs/store/demo/e1/core",
        "/pfs/store/demo/e1/r0.manifest~", "/pfs/store/demo/e9999999999999999999/x",
        "/pfs/store/.hidden/e1/r0.manifest"}) {
    files_.put(path, bytes("foreign"));
  }
  const auto infos = store->list("");
  ASSERT_TRUE(infos.ok()) << infos.status().message();
  ASSERT_EQ(infos->size(), 1U);
  EXPECT_EQ(infos->front().state, CheckpointState::kComplete) << infos->front().reason;
  ASSERT_TRUE(take(2).ok());
  ASSERT_TRUE(prune(1).ok());
  EXPECT_TRUE(files_.exists("/pfs/store/demo/e1/core"));
  EXPECT_EQ(count("e1/r0.manifest~"), 1U);
  EXPECT_EQ(count("e1/r0-"), 0U);
}

TEST_F(StoreTest, CompleteOnlyWithAllRanks) {
  const auto store = open();
  job_.ranks = 2;
  ASSERT_TRUE(take(1).ok());
  EXPECT_EQ(states(*store), std::vector<std::string>{"demo@1 partial"});
  const auto none = store->find("demo@latest");
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  expect_message(none.status(), "only 1 of 2 ranks");
  job_.rank = 1;
  job_.run = "def";
  ASSERT_TRUE(take(1).ok());
  const auto info = store->find("demo@latest");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->ranks.size(), 2U);
  EXPECT_TRUE(restore(*store, info.value(), job_.ranges).ok());
  EXPECT_TRUE(store->verify(info.value(), {}).ok());
}

TEST_F(StoreTest, RanksMustAgree) {
  const auto store = open();
  job_.ranks = 2;
  ASSERT_TRUE(take(1).ok());
  job_.rank = 1;
  job_.ranks = 3;
  job_.run = "def";
  ASSERT_TRUE(take(1).ok());
  EXPECT_EQ(states(*store), std::vector<std::string>{"demo@1 damaged"});
}

// A node that was lost comes back, and what it has of an earlier run takes the place of a rank that
// has not committed yet.
TEST_F(StoreTest, RanksOfDifferentRunsAreNoCheckpoint) {
  const auto store = open();
  job_.ranks = 2;
  job_.job_run = 7;
  ASSERT_TRUE(take(1).ok());
  job_.rank = 1;
  job_.run = "def";
  job_.job_run = 8;
  ASSERT_TRUE(take(1).ok());
  EXPECT_EQ(states(*store), std::vector<std::string>{"demo@1 partial"});
  const auto none = store->find("demo@latest");
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  expect_message(none.status(), "its ranks were written by different runs");
}

TEST_F(StoreTest, IdsSayWhatIsMeant) {
  const auto store = open();
  ASSERT_TRUE(take(1).ok());
  ASSERT_TRUE(take(2).ok());
  EXPECT_EQ(store->find("demo@1")->epoch, 1U);
  EXPECT_EQ(store->find("demo@latest")->epoch, 2U);
  EXPECT_EQ(store->find("demo")->epoch, 2U);
  EXPECT_EQ(store->find("demo@x").status().code(), Code::kInvalid);
  EXPECT_EQ(store->find("demo@-1").status().code(), Code::kInvalid);
  EXPECT_EQ(store->find("@1").status().code(), Code::kInvalid);
  EXPECT_EQ(store->find("").status().code(), Code::kInvalid);
  const auto missing = store->find("demo@7");
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  expect_message(missing.status(), "demo@2 (complete)");
  expect_message(store->find("other").status(), "none of that job");
}

TEST_F(StoreTest, EpochsRise) {
  const auto store = open();
  EXPECT_EQ(store->next_epoch("demo").value(), 1U);
  ASSERT_TRUE(take(1).ok());
  EXPECT_EQ(store->next_epoch("demo").value(), 2U);
  files_.put("/pfs/store/demo/e41/left-over", {});
  EXPECT_EQ(store->next_epoch("demo").value(), 42U);
}

TEST_F(StoreTest, OneRunWritesAtATime) {
  const auto store = open();
  auto held = store->lock_job("demo");
  ASSERT_TRUE(held.ok());
  const auto second = store->lock_job("demo");
  EXPECT_EQ(second.status().code(), Code::kBusy);
  expect_message(second.status(), "job demo is in use");
  EXPECT_TRUE(store->lock_job("other").ok());
  held.value().reset();
  EXPECT_TRUE(store->lock_job("demo").ok());
}

TEST_F(StoreTest, NothingIsOverwritten) {
  const auto store = open();
  ASSERT_TRUE(take(1).ok());
  const Status again = take(1);
  EXPECT_FALSE(again.ok());
  job_.run = "another";
  EXPECT_FALSE(take(1).ok());
  const auto info = store->find("demo@1");
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(store->verify(info.value(), {}).ok());
  EXPECT_EQ(count("another"), 0U);
}

TEST_F(StoreTest, AnAbandonedCheckpointLeavesNothing) {
  const auto store = open();
  {
    auto writer = backend_.begin("demo", 1, 0, "abc", 1 << 20);
    ASSERT_TRUE(writer.ok());
    auto slot = pool_.acquire();
    slot.value()->used = 100;
    write_slot(*writer.value(), 0, 0, slot.value());
    writer.value()->abandon();
    EXPECT_FALSE(writer.value()->wait().ok());
    EXPECT_TRUE(writer.value()->done());
    slot = pool_.acquire();
    write_slot(*writer.value(), 0, 100, slot.value());
  }
  backend_.drain();
  EXPECT_EQ(files_.paths(), std::vector<std::string>{});
  EXPECT_EQ(store->next_epoch("demo").value(), 1U);
}

TEST_F(StoreTest, AFailedWriterGivesSlotsBackAndGoesOn) {
  const auto store = open();
  files_.inject({1, Status(Code::kNoSpace, "cannot write x: disk full"), false, false});
  auto writer = backend_.begin("demo", 1, 0, "abc", 1 << 20);
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 50; ++i) {  // many more than the pool has
    auto slot = pool_.acquire();
    slot.value()->used = 4096;
    write_slot(*writer.value(), 0, 4096 * static_cast<uint64_t>(i), slot.value());
  }
  // Known before the end.
  EXPECT_EQ(writer.value()->wait().code(), Code::kNoSpace);
  writer.value()->finish(manifest_of(job_, 1), nullptr);
  EXPECT_EQ(writer.value()->wait().code(), Code::kNoSpace);
  writer.value().reset();
  backend_.drain();
  EXPECT_EQ(files_.paths(), std::vector<std::string>{});
}

TEST_F(StoreTest, AManifestThatReadersWouldRefuseIsNotCommitted) {
  const auto store = open();
  auto writer = backend_.begin("demo", 1, 0, "abc", 1 << 20);
  writer.value()->finish(manifest_of(job_, 1), nullptr);  // nothing of its ranges was written
  const Status status = writer.value()->wait();
  EXPECT_EQ(status.code(), Code::kInvalid);
  expect_message(status, "range 0 is not saved at byte 0");
  writer = backend_.begin("demo", 1, 0, "abc", 1 << 20);
  writer.value()->finish(manifest_of({"demo", "abc", 0, 1, {}, 1}, 2), nullptr);
  EXPECT_EQ(writer.value()->wait().code(), Code::kInvalid);
  writer.value().reset();
  backend_.drain();
  EXPECT_EQ(files_.paths(), std::vector<std::string>{});
}

// A slot's content: the pieces' bytes of range 0 as they are at epoch 1.
Slot* gathered(StagingPool& pool, const std::vector<Piece>& pieces) {
  const auto memory = memory_at(1, 0, 4000);
  Slot* slot = pool.acquire().value();
  for (const Piece& piece : pieces) {
    std::memcpy(slot->data + slot->used, memory.data() + piece.offset, piece.size);
    slot->used += piece.size;
  }
  return slot;
}

TEST_F(StoreTest, ASlotCarriesSeveralPieces) {
  const auto store = open();
  const Job job = {"demo", "abc", 0, 1, {4000}, 1};
  LocalBackend::Options several = options();
  several.slot_bytes = 16 << 10;  // a piece for each page
  LocalBackend backend(files_, several);
  auto writer = backend.begin("demo", 1, 0, "abc", 1 << 20);
  const std::vector<Piece> scattered = {{0, 3000, 500}, {0, 0, 100}, {0, 100, 900}, {0, 2000, 10}};
  const std::vector<Piece> rest = {{0, 1000, 1000}, {0, 2010, 990}, {0, 3500, 500}};
  writer.value()->write(scattered, gathered(backend.pool(), scattered));
  writer.value()->write(rest, gathered(backend.pool(), rest));
  writer.value()->finish(manifest_of(job, 1), nullptr);
  ASSERT_TRUE(writer.value()->wait().ok()) << writer.value()->wait().message();
  const auto info = store->find("demo@1");
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(restore(*store, info.value(), job.ranges).ok());
  EXPECT_EQ(info->ranks[0].extents.size(), 6U) << "neighbours are one";
  EXPECT_EQ(info->ranks[0].extents[1].size, 1000U);
}

TEST_F(StoreTest, AnEmptyCheckpointIsOne) {
  const auto store = open();
  job_.ranges = {};
  ASSERT_TRUE(take(1).ok());
  const auto info = store->find("demo");
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(store->verify(info.value(), {}).ok());
}

TEST_F(StoreTest, AFailedJournalFailsTheCheckpoint) {
  const auto store = open();
  files_.forbid("/pfs/store/demo/" + journal_name(job_));
  const auto journal = open_journal(backend_, job_);
  EXPECT_EQ(take(1, journal.get()).code(), Code::kPermission);
  files_.allow_all();
  EXPECT_EQ(take(2, journal.get()).code(), Code::kPermission) << "it stays failed, and says why";
  backend_.wait_for_checkpoints();
  EXPECT_EQ(states(*store), std::vector<std::string>{});
}

TEST_F(StoreTest, PruningKeepsTheNewest) {
  const auto store = open();
  for (uint64_t epoch = 1; epoch <= 4; ++epoch) ASSERT_TRUE(take(epoch).ok());
  EXPECT_EQ(store->prune_idle("demo", {0, 0, false}).status().code(), Code::kInvalid);
  ASSERT_TRUE(prune(2).ok());
  EXPECT_EQ(states(*store), (std::vector<std::string>{"demo@4 complete", "demo@3 complete"}));
  EXPECT_FALSE(files_.exists("/pfs/store/demo/e1"));
  EXPECT_TRUE(prune_folder(files_, "/pfs/store/nobody", 2).ok());
}

TEST_F(StoreTest, PruningKeepsJournalsThatAreNeeded) {
  std::vector<std::unique_ptr<JournalWriter>> journals;
  const auto begin_run = [&](const char* run) {
    job_.run = run;
    journals.push_back(open_journal(backend_, job_));
    while (count(journal_name(job_)) == 0) std::this_thread::yield();
  };
  const auto runs = {"run1", "run2", "run3"};
  uint64_t epoch = 0;
  for (const char* run : runs) {
    begin_run(run);
    ASSERT_TRUE(prune(1, false).ok());
    EXPECT_EQ(count(journal_name(job_)), 1U) << "the live one";
    ASSERT_TRUE(take(++epoch, journals.back().get()).ok());
  }
  const auto store = open();
  begin_run("run4");
  // Not by the run of the newest: goes only what the removed ones named.
  ASSERT_TRUE(prune(2, false).ok());
  EXPECT_EQ(count("run1-r0.journal"), 0U);
  EXPECT_EQ(count("run2-r0.journal"), 1U);
  EXPECT_EQ(count("run4-r0.journal"), 1U);
  files_.put("/pfs/store/demo/lost-r0.journal", {});
  files_.put("/pfs/store/demo/lost7-r0.journal", {});
  ASSERT_TRUE(take(4, journals.back().get()).ok());
  ASSERT_TRUE(prune(1).ok());
  EXPECT_EQ(count("run3-r0.journal"), 0U);
  EXPECT_EQ(count("lost"), 0U);
  EXPECT_EQ(count("run4-r0.journal"), 1U);
  EXPECT_TRUE(store->verify(store->find("demo").value(), {}).ok());
}

TEST_F(StoreTest, PruningRemovesOldPartialOnesOnly) {
  const auto store = open();
  job_.ranks = 2;
  ASSERT_TRUE(take(1).ok());  // of one rank only
  files_.put("/pfs/store/demo/e2/r0-abc123-0.segment", {});
  files_.put("/pfs/store/demo/e2/r0.manifest.abc123.tmp", {});
  job_.ranks = 1;
  ASSERT_TRUE(prune(1).ok());
  EXPECT_EQ(states(*store).size(), 2U) << "nothing has a successor";
  files_.put("/pfs/store/demo/e3/r0-abc123-0.segment", {});
  ASSERT_TRUE(take(4).ok());
  files_.put("/pfs/store/demo/e5/r0-abc123-0.segment", {});
  PruneRequest request;
  request.job_folder = "/pfs/store/demo";
  request.job_folder_name = "demo";
  request.is_being_written = [](uint64_t epoch) { return epoch == 3; };
  ASSERT_TRUE(prune_job(files_, request).ok());
  EXPECT_EQ(states(*store),
            (std::vector<std::string>{"demo@5 partial", "demo@4 complete", "demo@3 partial"}));
}

TEST_F(StoreTest, PruningTouchesNeitherDamagedOnesNorTheirJournals) {
  const auto store = open();
  const auto journal = open_journal(backend_, job_);
  ASSERT_TRUE(take(1, journal.get()).ok());
  files_.put("/pfs/store/demo/e1/r0.manifest", bytes("spoilt"));
  job_.run = "next";
  const auto next = open_journal(backend_, job_);
  ASSERT_TRUE(take(2, next.get()).ok());
  ASSERT_TRUE(prune(1).ok());
  EXPECT_EQ(states(*store), (std::vector<std::string>{"demo@2 complete", "demo@1 damaged"}));
  EXPECT_EQ(count("abc123-r0.journal"), 1U);
}

TEST_F(StoreTest, AnOpenStoreMustBeThere) {
  const auto missing = Store::open(files_, "/pfs/nowhere", false);
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  expect_message(missing.status(), "there is no store at /pfs/nowhere");
  EXPECT_EQ(Store::open(files_, "", true).status().code(), Code::kInvalid);
}

TEST(JobNames, AreNamesOfFolders) {
  EXPECT_EQ(sanitise_job("solver-2.1_x"), "solver-2.1_x");
  EXPECT_EQ(sanitise_job("a/b c\n"), "a_b_c_");
  EXPECT_EQ(sanitise_job(".."), "_.");
  EXPECT_EQ(sanitise_job(""), "_");
  EXPECT_EQ(sanitise_job("ü").size(), 2U);
  EXPECT_EQ(sanitise_job(std::string(500, 'x')).size(), 128U);
}

}  // namespace
}  // namespace gpusnap::test
