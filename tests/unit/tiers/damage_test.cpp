// Damage is reported as such, by name, and left as it is.
#include <algorithm>
#include <functional>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/checksum.h"
#include "tiers/format.h"

namespace gpusnap::test {
namespace {

const Job kDamagedJob = {"demo", "run1", 0, 1, {700, 1, 5000, 66000}, 32 << 10};
constexpr const char* kManifest = "/pfs/demo/e1/r0.manifest";
constexpr const char* kSegment = "/pfs/demo/e1/r0-run1-0.segment";
constexpr const char* kJournal = "/pfs/demo/run1-r0.journal";

using Bytes = std::vector<std::byte>;

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(files_, "/pfs", true).value());
    const auto journal = open_journal(backend_, kDamagedJob);
    ASSERT_TRUE(take_checkpoint(backend_, kDamagedJob, 1, journal.get()).ok());
    whole_ = store_->find("demo@1").value();
    ASSERT_TRUE(store_->verify(whole_, {}).ok());
    for (const std::string& path : files_.paths()) original_[path] = files_.content(path);
  }

  // The user's message about the checkpoint, from listing or from verifying it.
  Status judge() {
    const auto infos = store_->list("demo");
    if (!infos.ok()) return infos.status();
    if (infos->empty()) return {Code::kNotFound, "nothing there"};
    return store_->verify(infos->front(), {});
  }

  void put(const std::string& path, const Bytes& bytes) { files_.put(path, bytes); }
  Bytes original(const std::string& path) { return original_.at(path); }
  void mend() {
    for (const auto& [path, bytes] : original_) files_.put(path, bytes);
  }

  // Every flipped bit of `path` is noticed, at these bytes.
  void expect_flips_noticed(const std::string& path, const std::vector<size_t>& places) {
    const Bytes good = original(path);
    for (const size_t at : places) {
      Bytes bad = good;
      bad.at(at) ^= std::byte{1} << (at % 8);
      put(path, bad);
      const Status told = judge();
      EXPECT_TRUE(told.code() == Code::kDamaged) << "byte " << at << " " << told.message();
      EXPECT_EQ(files_.content(path), bad);
    }
    put(path, good);
    EXPECT_TRUE(judge().ok());
  }

  static std::vector<size_t> every(size_t end, size_t step) {
    std::vector<size_t> places;
    for (size_t at = 0; at < end; at += step) places.push_back(at);
    return places;
  }

  FaultFileSystem files_;
  LocalBackend backend_{files_};
  std::unique_ptr<Store> store_;
  CheckpointInfo whole_;
  std::map<std::string, Bytes> original_;
};

TEST_F(DamageTest, ANewFileOfEachKindIsThere) {
  for (const char* path : {kManifest, kSegment, kJournal}) EXPECT_EQ(original_.count(path), 1U);
}

TEST_F(DamageTest, EveryFlippedBitOfAManifest) {
  expect_flips_noticed(kManifest, every(original(kManifest).size(), 1));
}

TEST_F(DamageTest, EveryFlippedBitOfAJournal) {
  expect_flips_noticed(kJournal, every(original(kJournal).size(), 1));
}

TEST_F(DamageTest, FlippedBitsOfSegments) {
  for (const auto& [path, bytes] : original_) {
    if (path.find(".segment") == std::string::npos) continue;
    std::vector<size_t> places = every(64, 1);
    for (const size_t at : every(bytes.size(), 211)) places.push_back(at);
    places.push_back(bytes.size() - 1);
    expect_flips_noticed(path, places);
  }
}

TEST_F(DamageTest, AFlippedBitIsNeverRestored) {
  Bytes bad = original(kSegment);
  bad.at(kSegmentHeaderBytes + 100) ^= std::byte{4};
  put(kSegment, bad);
  Bytes to(whole_.ranks[0].extents[0].size);
  const Status read = store_->read(whole_, whole_.ranks[0], whole_.ranks[0].extents[0], to);
  EXPECT_EQ(read.code(), Code::kDamaged);
  expect_message(read, kSegment);
  expect_message(read, "between bytes 4096 and 4796");
  expect_message(judge(), "checkpoint demo@1 cannot be used: segment /pfs/demo/e1/r0-run1-0");
}

TEST_F(DamageTest, EveryTruncation) {
  for (const auto& [path, bytes] : original_) {
    std::vector<size_t> lengths = every(80, 7);
    lengths.push_back(bytes.size() - 1);
    lengths.push_back(bytes.size() / 2);
    for (const size_t length : lengths) {
      put(path, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)});
      const auto infos = store_->list("demo");
      ASSERT_TRUE(infos.ok());
      EXPECT_EQ(infos->front().state, CheckpointState::kDamaged) << path << " " << length;
      expect_message(judge(), path.substr(path.rfind('/') + 1));
      EXPECT_EQ(store_->find("demo").status().code(), Code::kNotFound);
    }
    put(path, bytes);
  }
}

TEST_F(DamageTest, WhatIsMissing) {
  files_.erase(kSegment);
  expect_message(judge(), std::string("segment ") + kSegment + " is missing");
  EXPECT_EQ(judge().code(), Code::kDamaged);
  mend();
  files_.erase(kJournal);
  expect_message(judge(), "journal part run1-r0.journal is missing");
  mend();
  files_.erase(kManifest);
  EXPECT_EQ(judge().code(), Code::kNotFound);
  expect_message(judge(), "demo@1 is partial: it was not committed");
}

TEST_F(DamageTest, AppendedBytes) {
  for (const char* path : {kManifest, kSegment}) {
    Bytes longer = original(path);
    longer.push_back(std::byte{0});
    put(path, longer);
    EXPECT_EQ(judge().code(), Code::kDamaged) << path;
    mend();
  }
  // A journal part grows.
  Bytes longer = original(kJournal);
  longer.resize(longer.size() + 100);
  put(kJournal, longer);
  EXPECT_TRUE(judge().ok());
}

TEST_F(DamageTest, LaterVersionsAreRefused) {
  for (const char* path : {kManifest, kSegment, kJournal}) {
    Bytes later = original(path);
    later[8] |= std::byte{8};
    const uint64_t sum = checksum(std::span(later).first(12));
    for (size_t i = 0; i < 4; ++i) later[12 + i] = static_cast<std::byte>(sum >> (8 * i));
    put(path, later);
    const Status told = judge();
    EXPECT_EQ(told.code(), Code::kNewer) << path;
    expect_message(told, "format version ");
    expect_message(told, "use a later gpusnap");
    ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 1).ok());
    EXPECT_EQ(files_.content(path), later);
    mend();
  }
}

TEST_F(DamageTest, FilesOfAnotherCheckpoint) {
  Job other = kDamagedJob;
  other.run = "run2";
  const auto journal = open_journal(backend_, other);
  ASSERT_TRUE(take_checkpoint(backend_, other, 2, journal.get()).ok());
  put(kManifest, files_.content("/pfs/demo/e2/r0.manifest"));
  const auto first = store_->find("demo@1");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->state, CheckpointState::kDamaged);
  expect_message(Status(Code::kDamaged, first->reason), "another checkpoint");
  mend();
  // Segments and journals know whose they are, too.
  Bytes swapped = files_.content("/pfs/demo/e2/r0-run2-0.segment");
  swapped.resize(original(kSegment).size());
  put(kSegment, swapped);
  expect_message(store_->verify(whole_, {}), "the segment of another checkpoint");
  mend();
  Bytes other_journal = files_.content("/pfs/demo/run2-r0.journal");
  other_journal.resize(original(kJournal).size());
  put(kJournal, other_journal);
  expect_message(store_->verify(whole_, {}), "another journal part");
}

TEST_F(DamageTest, UnreadableFoldersAreNamed) {
  for (const char* folder : {"/pfs/demo", "/pfs/demo/e1"}) {
    files_.forbid(folder);
    const auto infos = store_->list("demo");
    EXPECT_EQ(infos.status().code(), Code::kPermission);
    expect_message(infos.status(), folder);
    EXPECT_EQ(store_->list("").status().code(), Code::kPermission);
    EXPECT_EQ(store_->find("demo").status().code(), Code::kPermission);
    EXPECT_EQ(store_->verify(whole_, {}).code(), Code::kPermission);
    EXPECT_EQ(prune_folder(files_, "/pfs/demo", 1).code(), Code::kPermission);
    files_.allow_all();
  }
  files_.forbid("/pfs");
  const auto store = Store::open(files_, "/pfs", false);
  EXPECT_EQ(store.status().code(), Code::kPermission);
  expect_message(store.status(), "/pfs");
}

TEST_F(DamageTest, AnUnreadableFileIsNamed) {
  files_.forbid(kManifest);
  const auto infos = store_->list("demo");
  ASSERT_TRUE(infos.ok());
  EXPECT_EQ(infos->front().state, CheckpointState::kDamaged);
  expect_message(Status(Code::kDamaged, infos->front().reason), kManifest);
  EXPECT_EQ(judge().code(), Code::kPermission);
  files_.allow_all();
  files_.forbid(kSegment);
  EXPECT_EQ(judge().code(), Code::kPermission);
  expect_message(judge(), kSegment);
}

TEST_F(DamageTest, AManifestThatClaimsToBeHugeTakesNoMemory) {
  auto header = encode_manifest_header({uint64_t{1} << 40, 0});
  put(kManifest, {header.begin(), header.end()});
  EXPECT_EQ(judge().code(), Code::kDamaged);
  header = encode_manifest_header({UINT64_MAX, 0});
  put(kManifest, {header.begin(), header.end()});
  EXPECT_EQ(judge().code(), Code::kDamaged);
}

}  // namespace
}  // namespace gpusnap::test
