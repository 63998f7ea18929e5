// SPDX-License-Identifier: Apache-2.0
// News for the host from the device, without a driver: the test writes in its place.
#include "interpose/record/host_updates.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/journal/recorder.h"
#include "tests/support/journal_file.h"

namespace gpusnap {
namespace {

class HostUpdatesTest : public ::testing::Test {
 protected:
  HostUpdatesTest() {
    driver_.cuCtxGetCurrent = [](CUcontext* current) {
      *current = nullptr;
      return CUDA_SUCCESS;
    };
    lock_.begin();
    lock_.lock();
    own_state = {};
    admission_.set_mode(Mode::kRecord);
  }
  ~HostUpdatesTest() override {
    lock_.unlock();
    own_state = {};
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }
  void share_memory() { model_.host_memory.add(address(), memory_.size()); }
  // As the device, or as the program.
  void write(std::string_view text) { std::memcpy(memory_.data(), text.data(), text.size()); }
  WriteSet all_of_it() const {
    WriteSet set;
    set.add(address(), memory_.size());
    return set;
  }
  // The bytes that are delivered now.
  std::string collected() {
    uint8_t flags = 0;
    std::string text;
    for (const Delivery& each : updates_.collect(false, &flags)) {
      each.block.for_each_row([&](std::span<std::byte> row) {
        text.append(reinterpret_cast<const char*>(row.data()), row.size());
      });
    }
    return text;
  }

  Driver driver_{};
  DeviceModel model_{driver_};
  CallLock lock_;
  Admission admission_{lock_};
  CallsInDriver calls_;
  Ranks ranks_;
  std::atomic<const char*> doubt_{nullptr};
  std::vector<std::string> refused_;
  HostUpdates updates_{{model_, lock_, admission_, calls_, ranks_, doubt_,
                        [this](const std::string& what) { refused_.push_back(what); }}};
  std::vector<char> memory_ = std::vector<char>(8);
};

TEST_F(HostUpdatesTest, MemoryOfTheDeviceAloneIsNoNews) {
  EXPECT_EQ(updates_.begin_write(nullptr), nullptr);
  updates_.may_write(all_of_it(), nullptr);
  write("unseen..");
  EXPECT_EQ(collected(), "");
  EXPECT_EQ(updates_.device_writes(), 1U);  // it counts nevertheless
}

TEST_F(HostUpdatesTest, NewsIsDeliveredOnce) {
  share_memory();
  updates_.has_written(all_of_it());
  write("by it...");
  EXPECT_EQ(collected(), "by it...");
  EXPECT_EQ(collected(), "");
  EXPECT_EQ(updates_.device_writes(), 1U);
}

TEST_F(HostUpdatesTest, TheAnswerOfACallIsNoNews) {
  share_memory();
  updates_.has_written(all_of_it());
  write("answered");
  updates_.note_answered(plain_block(memory_.data(), memory_.size()));
  EXPECT_EQ(collected(), "");
}

TEST_F(HostUpdatesTest, NoWriteIsMarkedWhileNothingIsRecorded) {
  share_memory();
  admission_.set_mode(Mode::kOff);
  EXPECT_EQ(updates_.begin_write(nullptr), nullptr);
}

// There is no context, so no word can be had.
TEST_F(HostUpdatesTest, WithoutAContextThereIsNoMark) {
  EXPECT_EQ(updates_.take_mark().word, nullptr);
}

// A kernel that may write to any shared memory: another thread may have made the change that is
// found there.
TEST_F(HostUpdatesTest, AGuessIsRefusedInSeveralThreadsOfARecordingAlone) {
  share_memory();
  WriteSet guess;
  guess.add_everything();
  for (const bool recording : {false, true}) {
    for (const bool several : {false, true}) {
      admission_.set_mode(recording ? Mode::kRecord : Mode::kReplay);
      if (several) calls_.see_several_threads();
      if (!several && calls_.several_threads()) continue;
      refused_.clear();
      updates_.may_write(guess, nullptr);
      EXPECT_EQ(refused_.size(), recording && calls_.several_threads() ? 1U : 0U);
    }
  }
  refused_.clear();
  updates_.may_write(all_of_it(), nullptr);  // known to be all
  EXPECT_TRUE(refused_.empty());
}

// From the recording of one process to a replay in another one.
TEST_F(HostUpdatesTest, AReplayGivesTheHostWhatTheEntryBrought) {
  std::string folder = (std::filesystem::temp_directory_path() / "gpusnap-news-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  share_memory();
  auto file = JournalFile::create(posix_file_system(), folder, "journal");
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto recorder = Recorder::create(std::move(file.value()), "journal", {}, {}, 0, 0);
  ASSERT_TRUE(recorder.ok()) << recorder.status().message();
  updates_.has_written(all_of_it());
  write("brought.");
  uint8_t flags = 0;
  const auto& deliveries = updates_.collect(true, &flags);
  recorder.value()->append(1, {}, CUDA_SUCCESS, flags, nullptr, deliveries);
  auto parts = recorder.value()->seal();
  ASSERT_TRUE(recorder.value()->writer().settle(parts.back()).status().ok());

  model_.host_memory.remove(address());
  share_memory();
  write("stale...");
  auto replayer = Replayer::open(posix_file_system(), folder, std::move(parts), 1);
  ASSERT_TRUE(replayer.ok()) << replayer.status().message();
  Entry entry;
  ASSERT_TRUE(replayer.value()->next(entry).ok());
  updates_.deliver(entry, *replayer.value());
  EXPECT_EQ(std::string(memory_.begin(), memory_.end()), "brought.");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpusnap
