// A store that does not answer when a checkpoint comes: the node's own tiers take it meanwhile.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "backend_support.h"
#include "tests/support/forwarding_file_system.h"

namespace gpusnap::test {
namespace {

// No folder is made below `below` until it is told to go on.
class StandingFileSystem final : public ForwardingFileSystem {
 public:
  StandingFileSystem(FileSystem& files, std::string below)
      : ForwardingFileSystem(files), below_(std::move(below)) {}

  void stand(bool stands) {
    const std::lock_guard lock(mutex_);
    stands_ = stands;
    changed_.notify_all();
  }

  Status make_folder(const std::string& folder) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !stands_ || !folder.starts_with(below_); });
    lock.unlock();
    return ForwardingFileSystem::make_folder(folder);
  }

 private:
  const std::string below_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_ = false;
};

class StandingStoreTest : public SsdTest {
 protected:
  StandingStoreTest() { through_ = &standing_; }

  bool all_slots_are_free() {
    const auto is_free = [](SlotEntry& slot) { return slot.word.load().state == SlotState::kFree; };
    const auto slots = memory_->slots();
    return std::all_of(slots.begin(), slots.begin() + memory_->backed(), is_free);
  }

  StandingFileSystem standing_{files_, "/store/"};
};

// Also those of its manifest: with a slot of each program's kept there would be none left.
TEST_F(StandingStoreTest, APartThatWaitsForItKeepsNoSlots) {
  start(PlacementPolicy::kSsdOnly);
  Saver saver(*memory_, "/store", job_);
  // A stream that is there before the backend may be an earlier one's, which the store knows.
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  standing_.stand(true);
  const uint32_t stream = saver.save(2);
  EXPECT_TRUE(comes_true([this] { return all_slots_are_free(); }));
  EXPECT_FALSE(files_.exists("/store/demo/e2/r0.manifest"));
  standing_.stand(false);
  const Status saved = saver.wait(stream);
  EXPECT_TRUE(saved.ok()) << saved.message();
  saver.go();
  drain();
  expect_back(2);
}

}  // namespace
}  // namespace gpusnap::test
