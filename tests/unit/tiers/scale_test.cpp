// SPDX-License-Identifier: Apache-2.0
//
// Calls of the file system grow with the number of checkpoints and no faster.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>

#include "fault_file_system.h"
#include "tests/support/forwarding_file_system.h"
#include "tests/support/many_checkpoints.h"
#include "tiers/store.h"

namespace gpusnap::test {
namespace {

// Counts calls, and the entries of folders that they gave.
class Asked final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    ++calls;
    return ForwardingFileSystem::open(path);
  }
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override {
    auto found = ForwardingFileSystem::entries(folder);
    calls += 1 + (found.ok() ? found->size() : 0);
    return found;
  }
  Status sync_folder(const std::string& folder) override {
    ++calls;
    return ForwardingFileSystem::sync_folder(folder);
  }
  Status remove(const std::string& path) override {
    ++calls;
    return ForwardingFileSystem::remove(path);
  }
  Status remove_folder(const std::string& folder) override {
    ++calls;
    return ForwardingFileSystem::remove_folder(folder);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    ++calls;
    return ForwardingFileSystem::lock(path);
  }
  uint64_t calls = 0;
};

// The number of calls that `look` makes in a store with so many checkpoints.
uint64_t asked(uint64_t checkpoints, const std::function<Status(Store&)>& look) {
  FaultFileSystem files;
  const Status made = make_checkpoints(files, "/pfs", checkpoints);
  EXPECT_TRUE(made.ok()) << made.message();
  Asked counted(files);
  const auto store = Store::open(counted, "/pfs", false);
  EXPECT_TRUE(store.ok()) << store.status().message();
  const Status looked = look(*store.value());
  EXPECT_TRUE(looked.ok()) << looked.message();
  return counted.calls;
}

void expect_linear(const std::function<Status(Store&)>& look) {
  constexpr uint64_t kSome = 100, kConstant = 20;
  const uint64_t some = asked(kSome, look), twice = asked(2 * kSome, look);
  EXPECT_GE(some, kSome);
  EXPECT_LE(twice, 2 * some + kConstant);
}

Status prune(Store& store, uint32_t keep, bool dry_run) {
  IdlePrune options;
  options.keep = keep;
  options.left_since_unix_ns = INT64_MAX;
  options.dry_run = dry_run;
  const auto items = store.prune_idle("demo", options);
  return items.status();
}

TEST(Scale, OfAListIsLinear) {
  expect_linear([](Store& store) {
    const auto listed = store.list("");
    EXPECT_TRUE(!listed.ok() || listed->front().state == CheckpointState::kComplete)
        << listed->front().reason;
    return listed.status();
  });
}

TEST(Scale, OfAJobsUsageIsLinear) {
  expect_linear([](Store& store) { return store.usage("demo").status(); });
}

TEST(Scale, OfPruningAllButOneIsLinear) {
  expect_linear([](Store& store) {
    Status pruned = prune(store, 1, false);
    EXPECT_EQ(store.list("demo")->size(), 1U);
    return pruned;
  });
}

TEST(Scale, OfPruningNothingIsLinear) {
  expect_linear([](Store& store) { return prune(store, 1000, false); });
  expect_linear([](Store& store) { return prune(store, 1, true); });
}

}  // namespace
}  // namespace gpusnap::test
