// A backend on a thread, with a store, and perhaps a local tier, that can go wrong.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "saver.h"
#include "tiers/backend/backend.h"
#include "tiers/backend/block_log.h"
#include "tiers/names.h"

namespace gpusnap::test {

inline constexpr uint64_t kSlot = 8 << 10;

class BackendTest : public ::testing::Test {
 protected:
  explicit BackendTest(uint64_t slots = 24) {
    memory_ = std::move(StagingMemory::make_private({kSlot, slots * kSlot}).value());
    job_.ranges = {10000, 1, 64 << 10, 777};
    EXPECT_TRUE(files_.make_folder("/store").ok());
  }
  ~BackendTest() override { EXPECT_EQ(thread_.joinable(), false); }

  void start(Backend::Options options = {}) {
    options.chunk_bytes = 3 * slot_bytes();
    options.warn = [this](const std::string& line) {
      std::printf("warning: %s\n", line.c_str());
      const std::lock_guard lock(warnings_mutex_);
      warnings_.push_back(line);
    };
    auto backend = Backend::make(*through_, *memory_, std::move(options));
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    backend_ = std::move(backend.value());
    thread_ = std::thread([this] { backend_->run(); });
  }
  void stop() {
    backend_->stop();
    thread_.join();
    backend_.reset();
  }
  void drain() {
    backend_->drain();
    thread_.join();
    backend_.reset();
  }

  uint64_t slot_bytes() { return memory_->bytes(0).size(); }

  void expect_back(uint64_t epoch) {
    const auto store = Store::open(files_, "/store", false);
    ASSERT_TRUE(store.ok());
    const auto found = store.value()->find(job_.name + "@" + std::to_string(epoch));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->state, CheckpointState::kComplete) << found->reason;
    const Status verified = store.value()->verify(found.value(), {});
    EXPECT_TRUE(verified.ok()) << verified.message();
    const Status restored = restore(*store.value(), found.value(), job_.ranges);
    EXPECT_TRUE(restored.ok()) << restored.message();
  }
  // Neither the parts of files that are no checkpoint nor what only a backend needs.
  void expect_no_leftovers() {
    for (const std::string& path : files_.paths()) {
      const std::string name = path.substr(path.rfind('/') + 1);
      EXPECT_FALSE(!path.starts_with("/ssd/") && parse_block_log_name(name)) << path;
      EXPECT_FALSE(parse_temporary_manifest_name(name)) << path;
    }
  }

  size_t warnings_with(const std::string& text) {
    const std::lock_guard lock(warnings_mutex_);
    return static_cast<size_t>(std::ranges::count_if(
        warnings_, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  FaultFileSystem files_;
  FileSystem* through_ = &files_;  // the backend's
  std::mutex warnings_mutex_;
  std::vector<std::string> warnings_;
  std::unique_ptr<StagingMemory> memory_;
  Job job_;
  std::unique_ptr<Backend> backend_;
  std::thread thread_;
};

template <class Condition>
bool comes_true(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// With a local tier behind the cache.
class SsdTest : public BackendTest {
 protected:
  void start(PlacementPolicy policy = PlacementPolicy::kSsdOnly, uint64_t chunks = 100,
             uint32_t flushes = 4) {
    start({{"/ssd", chunks * 3 * slot_bytes()}}, policy, flushes);
  }
  void start(std::vector<SsdFolder> ssd, PlacementPolicy policy, uint32_t flushes) {
    Backend::Options options;
    options.flushes = flushes;
    options.ssd = std::move(ssd);
    options.policy = policy;
    options.cache_bytes = 3 * slot_bytes();
    options.name = "node";
    options.try_again = 5ms;
    BackendTest::start(std::move(options));
  }
  // All that was handed over is in files.
  void wait_until_written() {
    const auto is_free = [](SlotEntry& slot) { return slot.word.load().state == SlotState::kFree; };
    const auto slots = memory_->slots();
    while (!std::all_of(slots.begin(), slots.begin() + memory_->backed(), is_free)) {
      std::this_thread::sleep_for(1ms);
    }
  }
  // For those who have it open, too.
  void flip_bit(const std::string& path, uint64_t offset) {
    const std::byte wrong = files_.content(path).at(offset) ^ std::byte{4};
    auto file = files_.continue_bulk(path);
    ASSERT_TRUE(file.ok());
    file.value()->write(offset, {&wrong, 1}, [](const Status&) {});
  }
  std::string only_chunk() const {
    const std::vector<std::string> paths = on_ssd();
    const auto found = std::ranges::find_if(
        paths, [](const std::string& path) { return path.ends_with(".chunk"); });
    return found == paths.end() ? "" : *found;
  }
  // The memory goes with the machine.
  void reboot(Survival survival) {
    stop();
    files_.crash(survival);
    memory_ = std::move(StagingMemory::make_private({kSlot, 24 * kSlot}).value());
  }

  std::vector<std::string> on_ssd() const {
    std::vector<std::string> paths = files_.paths();
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("/ssd/"); });
    return paths;
  }
  // But for copies of what is complete, each with a log that says so.
  void expect_only_copies() {
    std::set<std::string> folders;
    for (const std::string& path : on_ssd()) {
      const std::string name = path.substr(path.rfind('/') + 1);
      const std::string folder = path.substr(0, path.rfind('/'));
      if (parse_chunk_name(name)) folders.insert(folder);
      if (!parse_block_log_name(name)) continue;
      BlockLog log;
      EXPECT_TRUE(read_block_log(files_, path, log).ok()) << path;
      const auto text = parse_checkpoint(log.text);
      ASSERT_TRUE(text.ok()) << path;
      const std::string epoch = "/store/demo/e" + std::to_string(text->epoch);
      EXPECT_TRUE(files_.exists(epoch + "/r0.manifest")) << path;
      folders.insert(folder + " has a log");
    }
    for (const std::string& folder : folders) {
      if (folder.ends_with(" log")) continue;
      EXPECT_EQ(folders.count(folder + " has a log"), 1U) << folder;
    }
  }
};

}  // namespace gpusnap::test
