// Increments become full checkpoints: with the same bytes, under their children, and whatever
// happens meanwhile.
#include <algorithm>

#include "chain_support.h"
#include "fault_file_system.h"
#include "tiers/chain.h"
#include "tiers/format.h"

namespace gpusnap::test {
namespace {

const Job kJob = {"demo", "run1", 0, 1, {}, 9 << 10};

// A job with one full checkpoint and increments, each on the one before it.
class Line {
 public:
  explicit Line(FileSystem& files)
      : files_(files),
        backend_(files),
        store_(std::move(Store::open(files, "/pfs", true).value())) {
    memory_.allocate(0x1000, 12000);
    memory_.allocate(0x9000, 700);
    memory_.allocate(0xa000, 0);
  }

  void take(int count) {
    for (; count > 0; --count) {
      const uint64_t epoch = images_.size() + 1;
      for (uint64_t zone = epoch % 3; zone < 24; zone += 2 + epoch) {
        memory_.write(0x1000, zone, static_cast<std::byte>(epoch));
      }
      Increment increment(backend_, kJob, epoch);
      increment.save(memory_, epoch == 1 ? std::nullopt : std::optional(images_.at(epoch - 1)),
                     random_);
      const Status taken = increment.finish();
      ASSERT_TRUE(taken.ok()) << taken.message();
      images_[epoch] = {epoch, static_cast<uint32_t>(epoch - 1), memory_.image()};
      memory_.clean();
    }
  }

  Result<bool> merge(uint64_t epoch, uint32_t limit = 2, double most_read = 1e9) {
    return merge_part(files_, epoch, 0, limit, {}, "demo", most_read);
  }
  // The bytes that a restore reads, as a multiple of the memory.
  double read(uint64_t epoch) {
    const auto contents = store_->resolve(info(epoch), 0);
    EXPECT_TRUE(contents.ok()) << contents.status().message();
    return static_cast<double>(read_bytes(contents->chain, contents->pieces)) /
           static_cast<double>(contents->chain.front().bytes());
  }
  Store& store() { return *store_; }
  CheckpointInfo info(uint64_t epoch) {
    return store_->find("demo@" + std::to_string(epoch)).value();
  }

  // All that were taken are there, and right.
  void expect_right(uint64_t first = 1) {
    for (auto each = images_.lower_bound(first); each != images_.end(); ++each) {
      const CheckpointInfo found = info(each->first);
      EXPECT_EQ(found.state, CheckpointState::kComplete) << found.id << ": " << found.reason;
      EXPECT_TRUE(read_back(*store_, found, 0) == each->second.image) << found.id;
      const Status good = store_->verify(found, {});
      EXPECT_TRUE(good.ok()) << good.message();
    }
  }
  uint32_t ancestors(uint64_t epoch) { return info(epoch).chain; }

 private:
  FileSystem& files_;
  Random random_{1};
  LocalBackend backend_;
  std::unique_ptr<Store> store_;
  DeviceMemory memory_;
  std::map<uint64_t, Parent> images_;
};

TEST(Merge, MakesAFullOneOfAnIncrementUnderItsChildren) {
  FaultFileSystem files;
  Line line(files);
  line.take(6);
  const Manifest before = line.info(4).ranks[0];
  ASSERT_TRUE(line.merge(4).value());
  const Manifest after = line.info(4).ranks[0];
  EXPECT_EQ(after.parent, 0U);
  EXPECT_NE(after.replaces, 0U);
  EXPECT_EQ(after.own_bytes(), after.bytes());
  EXPECT_EQ(after.cut_unix_ns, before.cut_unix_ns);
  // Blocks that increments had scattered lie together again.
  EXPECT_LE(after.extents.size(), 12700U / 512 + 2);
  EXPECT_EQ(line.ancestors(4), 0U);
  EXPECT_EQ(line.ancestors(5), 1U);
  EXPECT_EQ(line.ancestors(6), 2U);
  line.expect_right();
  // And goes on.
  line.take(1);
  EXPECT_EQ(line.info(7).ranks[0].chain, 3U) << "what its writer counted";
  line.expect_right();
  ASSERT_TRUE(prune_folder(files, "/pfs/demo", 1).ok());
  line.expect_right(4);
  EXPECT_FALSE(files.exists("/pfs/demo/e3"));
  // Nothing is left of what the old manifest named.
  for (const std::string& path : files.paths()) {
    if (!path.starts_with("/pfs/demo/e4/") || path.ends_with(".manifest")) continue;
    EXPECT_NE(path.find("-run1m1-"), std::string::npos) << path;
  }
}

TEST(Merge, TakesThoseWithHalfTheLimit) {
  FaultFileSystem files;
  Line line(files);
  line.take(5);
  EXPECT_FALSE(line.merge(1, 2).value()) << "is full";
  EXPECT_FALSE(line.merge(4, 8).value());
  EXPECT_TRUE(line.merge(5, 8).value());
  EXPECT_FALSE(line.merge(5, 8).value()) << "was merged";
  EXPECT_TRUE(line.merge(2, 1).value());
  EXPECT_EQ(line.merge(9, 2).status().code(), Code::kNotFound);
  // Its manifest says three ancestors and there are two.
  EXPECT_EQ(line.info(4).ranks[0].chain, 3U);
  EXPECT_EQ(line.ancestors(4), 2U);
  EXPECT_FALSE(line.merge(4, 6).value());
  line.expect_right();
}

TEST(Merge, TakesThoseOfWhichMuchIsReadForNothing) {
  FaultFileSystem files;
  Line line(files);
  line.take(4);
  EXPECT_EQ(line.read(1), 1);
  const double much = line.read(4);
  EXPECT_GT(much, 1);
  EXPECT_FALSE(line.merge(4, 100, much).value());
  EXPECT_TRUE(line.merge(4, 100, much - 0.01).value());
  EXPECT_EQ(line.read(4), 1);
  EXPECT_FALSE(line.merge(4, 100, 1).value());
  line.expect_right();
}

TEST(Merge, OneAtATime) {
  FaultFileSystem files;
  Line line(files);
  line.take(3);
  {
    const auto held = files.lock("/pfs/demo/r0.merge");
    EXPECT_FALSE(line.merge(3).value());
  }
  EXPECT_TRUE(line.merge(3).value());
}

TEST(Merge, StopsWhenAsked) {
  FaultFileSystem files;
  Line line(files);
  line.take(3);
  const auto before = files.paths();
  int asked = 0;
  const auto merged = merge_part(files, 3, 0, 2, [&] { return ++asked == 2; });
  ASSERT_TRUE(merged.ok());
  EXPECT_FALSE(merged.value());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(files.paths(), before);
  EXPECT_TRUE(line.merge(3).value());
}

TEST(Merge, WhoHoldsTheOldManifestReadsOn) {
  FaultFileSystem files;
  Line line(files);
  line.take(4);
  const CheckpointInfo old = line.info(4);
  const Image image = read_back(line.store(), old, 0);
  ASSERT_TRUE(line.merge(4).value());
  EXPECT_TRUE(read_back(line.store(), old, 0) == image);
  ASSERT_TRUE(line.merge(3).value());
  EXPECT_TRUE(read_back(line.store(), old, 0) == image) << "with a merged parent";
}

TEST(Merge, DoesNotTakeOverWhatIsDamaged) {
  FaultFileSystem files;
  Line line(files);
  line.take(4);
  const Manifest newest = line.info(4).ranks[0];
  const std::string segment = "/pfs/demo/e4/" + newest.segments[newest.extents[0].segment].file;
  std::vector<std::byte> bytes = files.content(segment);
  bytes.at(newest.extents[0].segment_offset + 1) ^= std::byte{1};
  files.put(segment, bytes);
  const auto before = files.paths();
  const auto merged = line.merge(4);
  EXPECT_EQ(merged.status().code(), Code::kDamaged);
  expect_message(merged.status(), segment);
  EXPECT_EQ(files.paths(), before);
}

size_t operations_of_a_merge() {
  FaultFileSystem files;
  Line line(files);
  line.take(4);
  files.heal();
  EXPECT_TRUE(line.merge(3).value());
  return files.operations();
}

// The chain is right afterwards, and pruning leaves nothing else.
void expect_whole(FaultFileSystem& files, Line& line) {
  line.expect_right();
  const bool merged = line.ancestors(3) == 0;
  ASSERT_TRUE(prune_folder(files, "/pfs/demo", 1).ok());
  line.expect_right(merged ? 3 : 1);
  size_t named = 0;
  const auto infos = line.store().list("demo");
  for (const CheckpointInfo& info : infos.value()) named += 1 + info.ranks[0].segments.size();
  EXPECT_EQ(files.paths().size(), named);
}

TEST(Merge, SurvivesACrashAtEveryOperation) {
  const size_t operations = operations_of_a_merge();
  ASSERT_GT(operations, 6U);
  for (size_t operation = 0; operation <= operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                   std::to_string(static_cast<int>(survival)));
      FaultFileSystem files;
      Line line(files);
      line.take(4);
      files.inject({operation, std::nullopt, false, false});
      EXPECT_EQ(line.merge(3).ok(), operation == operations);
      files.crash(survival);
      expect_whole(files, line);
    }
  }
}

// The process dies, another prunes, and then the machine stops.
TEST(Merge, IsDurableBeforeWhatItReplacesGoes) {
  const size_t operations = operations_of_a_merge();
  for (size_t operation = 0; operation <= operations; ++operation) {
    for (const Survival survival : kAllSurvivals) {
      SCOPED_TRACE("operation " + std::to_string(operation) + ", survival " +
                   std::to_string(static_cast<int>(survival)));
      FaultFileSystem files;
      Line line(files);
      line.take(4);
      files.inject({operation, std::nullopt, false, false});
      EXPECT_EQ(line.merge(3).ok(), operation == operations);
      files.restart_process();
      const bool merged = line.ancestors(3) == 0;
      ASSERT_TRUE(prune_folder(files, "/pfs/demo", 1).ok());
      files.crash(survival);
      line.expect_right(merged ? 3 : 1);
    }
  }
}

TEST(Merge, FailsCleanlyWhereAnyOperationFails) {
  const size_t operations = operations_of_a_merge();
  for (size_t operation = 0; operation < operations; ++operation) {
    for (const bool takes_effect : {false, true}) {
      SCOPED_TRACE("operation " + std::to_string(operation) + (takes_effect ? " done" : ""));
      FaultFileSystem files;
      Line line(files);
      line.take(4);
      files.inject({operation, Status(Code::kNoSpace, "cannot: disk full"), takes_effect, false});
      EXPECT_EQ(line.merge(3).status().code(), Code::kNoSpace);
      files.heal();
      line.expect_right();
      const bool is_left = line.ancestors(3) > 0;
      EXPECT_EQ(line.merge(3).value(), is_left);
      files.crash(Survival::kNothing);
      expect_whole(files, line);
    }
  }
}

}  // namespace
}  // namespace gpusnap::test
