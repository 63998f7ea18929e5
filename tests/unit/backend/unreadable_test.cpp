// Local tiers that cannot be read when a backend comes to take up what lies there: nothing that may
// be whole is removed, and it goes to the store when the device answers again.
#include <gtest/gtest.h>

#include <atomic>

#include "backend_support.h"
#include "tests/support/forwarding_file_system.h"
#include "tiers/daemon/leftovers.h"

namespace gpusnap::test {
namespace {

// Refuses to read paths that begin with `below` while it is told so.
class UnreadableFileSystem final : public ForwardingFileSystem {
 public:
  enum class What { kNothing, kLogs, kFolders };
  UnreadableFileSystem(FileSystem& files, std::string below)
      : ForwardingFileSystem(files), below_(std::move(below)) {}

  void refuse(What what) { refused_ = what; }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    if (refused_ == What::kLogs && path.starts_with(below_) && path.ends_with(".blocks")) {
      return failure(path);
    }
    return ForwardingFileSystem::open(path);
  }
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override {
    if (refused_ == What::kFolders && folder.starts_with(below_)) return failure(folder);
    return ForwardingFileSystem::entries(folder);
  }

 private:
  static Status failure(const std::string& path) {
    return {Code::kIo, "cannot read " + path + ": Input/output error"};
  }

  const std::string below_;
  std::atomic<What> refused_{What::kNothing};
};

using What = UnreadableFileSystem::What;

class UnreadableTest : public SsdTest {
 protected:
  UnreadableTest() { through_ = &unreadable_; }

  // The first tier takes the log and one chunk, the second one the rest.
  void start(uint32_t flushes) {
    SsdTest::start({{"/ssd/a", 4 * slot_bytes()}, {"/ssd/b", 100 * slot_bytes()}},
                   PlacementPolicy::kSsdOnly, flushes);
  }

  bool is_whole_there() { return !leftovers_on(files_, {{"/ssd/a", 0}, {"/ssd/b", 0}}).empty(); }
  std::vector<std::string> chunks() const {
    std::vector<std::string> paths = on_ssd();
    std::erase_if(paths, [](const std::string& path) { return !path.ends_with(".chunk"); });
    return paths;
  }

  // The machine stops when a checkpoint is whole on local tiers.
  void leave_one() {
    start(0);
    {
      Saver saver(*memory_, "/store", job_);
      saver.open_journal();
      saver.save(1);
      ASSERT_TRUE(comes_true([this] { return is_whole_there(); }));
    }
    reboot(Survival::kNothing);
    ASSERT_GE(chunks().size(), 2U);
    ASSERT_TRUE(chunks().front().starts_with("/ssd/a"));
    ASSERT_TRUE(chunks().back().starts_with("/ssd/b"));
  }

  void expect_committed() {
    EXPECT_TRUE(comes_true([this] { return backend_->counters().committed == 1; }));
    drain();
    expect_back(1);
    expect_no_leftovers();
    EXPECT_FALSE(is_whole_there()) << "it would be taken up again";
  }

  UnreadableFileSystem unreadable_{files_, "/ssd/a"};
};

class UnreadableLeftover : public UnreadableTest, public ::testing::WithParamInterface<What> {};

INSTANTIATE_TEST_SUITE_P(Refuses, UnreadableLeftover,
                         ::testing::Values(What::kLogs, What::kFolders));

TEST_P(UnreadableLeftover, WaitsForItsDevice) {
  leave_one();
  const std::vector<std::string> there = on_ssd();
  unreadable_.refuse(GetParam());
  start(4);
  EXPECT_TRUE(comes_true([this] { return warnings_with("cannot read /ssd/a") > 0; }));
  stop();
  start(4);
  EXPECT_EQ(on_ssd(), there);
  unreadable_.refuse(What::kNothing);
  expect_committed();
}

TEST_P(UnreadableLeftover, KeepsNoBackendBusy) {
  leave_one();
  const std::vector<std::string> there = on_ssd();
  unreadable_.refuse(GetParam());
  start(4);
  drain();
  EXPECT_EQ(on_ssd(), there);
  EXPECT_LE(warnings_with("cannot read "), 2U) << "at most the folder and what is in it";
  unreadable_.refuse(What::kNothing);
  start(4);
  expect_committed();
}

// The client's slots are free by then: files are all that is left of them.
TEST_P(UnreadableLeftover, IsKeptThoughItsClientIsToldThatItFailed) {
  start(0);
  Saver saver(*memory_, "/store", job_);
  saver.open_journal();
  const uint32_t stream = saver.save(1);
  ASSERT_TRUE(comes_true([this] { return is_whole_there(); }));
  stop();
  const std::vector<std::string> there = chunks();
  unreadable_.refuse(GetParam());
  start(4);
  const Status saved = saver.wait(stream);
  EXPECT_EQ(saved.code(), Code::kIo) << saved.message();
  EXPECT_NE(saved.message().find("rank 0's part of /store/demo/e1 has to wait for a local tier: "
                                 "cannot read /ssd/a/"),
            std::string::npos)
      << saved.message();
  EXPECT_EQ(chunks(), there);
  unreadable_.refuse(What::kNothing);
  saver.go();
  expect_committed();
}

}  // namespace
}  // namespace gpusnap::test
