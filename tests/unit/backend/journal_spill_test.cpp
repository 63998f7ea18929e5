// SPDX-License-Identifier: Apache-2.0
// Slots of a journal that wait on a local tier: what is in their file, and that each slot comes to
// the journal whatever happens meanwhile.
#include "tiers/backend/journal_spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "fault_file_system.h"
#include "standing_file_system.h"
#include "tiers/backend/journal_receiver.h"

namespace gpusnap::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kJournal = "/j/abc123-r0.journal";
constexpr const char* kSpill = "/ssd/spills/1.spill";

template <class Condition>
bool comes_true(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

std::vector<std::byte> some_bytes(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

struct SpillFile : public ::testing::Test {
  SpillFile() {
    SpillWriter writer(files, kSpill);
    uint64_t offset = 0;
    for (size_t i = 0; i < contents.size(); ++i) {
      slots.push_back(writer.append(7 + i, offset, contents[i]).value());
      offset += contents[i].size();
    }
  }
  FaultFileSystem files;
  const std::vector<std::vector<std::byte>> contents = {some_bytes(1, 300), some_bytes(2, 0),
                                                        some_bytes(3, 5000)};
  std::vector<SpilledSlot> slots;
};

TEST_F(SpillFile, HasWhatWasAppended) {
  EXPECT_EQ(find_spilled(files, kSpill).value(), slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(slots[i].sequence, 7 + i);
    EXPECT_EQ(read_spilled(files, kSpill, slots[i]).value(), contents[i]);
  }
}

TEST_F(SpillFile, HasWholeSlotsWhereverItsWriterDied) {
  const auto whole = files.content(kSpill);
  for (size_t size = 0; size < whole.size(); ++size) {
    files.put("/cut", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
    const auto found = find_spilled(files, "/cut");
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_LT(found->size(), slots.size());
    for (size_t i = 0; i < found->size(); ++i) {
      ASSERT_EQ(found.value()[i], slots[i]);
      ASSERT_EQ(read_spilled(files, "/cut", slots[i]).value(), contents[i]);
    }
  }
}

TEST_F(SpillFile, GivesNoWrongBytes) {
  const auto whole = files.content(kSpill);
  for (size_t at = 0; at < whole.size(); ++at) {
    auto wrong = whole;
    wrong[at] ^= std::byte{4};
    files.put("/wrong", wrong);
    const auto found = find_spilled(files, "/wrong");
    ASSERT_TRUE(found.ok());
    size_t good = 0;
    for (const SpilledSlot& slot : found.value()) {
      const auto bytes = read_spilled(files, "/wrong", slot);
      if (!bytes.ok()) {
        ASSERT_EQ(bytes.status().code(), Code::kDamaged);
        continue;
      }
      ASSERT_EQ(bytes.value(), contents.at(slot.sequence - 7));
      ++good;
    }
    ASSERT_LT(good, slots.size()) << "byte " << at;
  }
}

TEST_F(SpillFile, IsNotWrittenOver) {
  SpillWriter writer(files, kSpill);
  EXPECT_FALSE(writer.append(1, 0, contents[0]).ok());
  EXPECT_EQ(find_spilled(files, kSpill).value(), slots);
}

// The staging area, a journal's file below /j, a local tier, and receivers one after the other.
class SpillingJournal : public ::testing::Test {
 protected:
  static constexpr size_t kSlotBytes = 100;

  ~SpillingJournal() override { standing_.stand(false); }

  void start() {
    JournalReceiver::Setting setting;
    setting.file = kJournal;
    setting.before = slots_.size();
    setting.spills_before = spills_in_area_;
    if (spills_in_area_ > 0) {
      setting.find_spills = [this]() -> Result<std::vector<std::string>> {
        if (unreadable_ > 0 && --unreadable_ >= 0) return Status(Code::kIo, "cannot read /ssd");
        return spills();
      };
    }
    setting.look_again = 1ms;
    JournalReceiver::Actions actions;
    actions.progress = [this](uint64_t slots) { durable_ = slots; };
    actions.spills = [this](uint32_t count) {
      EXPECT_LE(count, spills().size()) << "another backend could not find as many";
      spills_in_area_ = count;
    };
    actions.local_failed = [this](const std::string&, const Status&) { ++local_failures_; };
    actions.ended = [this](const Status& status) {
      ended_status_ = status;
      has_ended_ = true;
    };
    journal_ = JournalReceiver::start(standing_, std::move(setting), std::move(actions)).value();
  }

  // Another backend finds the slots in the area, which are handed over again.
  void take_over() {
    journal_->leave();
    journal_.reset();
    start();
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!released_[i]) hand_over(i);
    }
    journal_->all_found();
  }

  void add() {
    slots_.push_back(some_bytes(slots_.size(), kSlotBytes));
    released_.emplace_back(false);
    hand_over(slots_.size() - 1);
  }

  void hand_over(size_t i) {
    journal_->add({i, i * kSlotBytes, slots_[i], [this, i](bool written) {
                     if (!written) return;
                     // Its memory gets another content.
                     for (std::byte& byte : slots_[i]) byte = std::byte{0xee};
                     released_[i] = true;
                   }});
  }

  bool spill(uint64_t room = UINT64_MAX) {
    if (!journal_->keeps_slots()) return false;
    ++rooms_;
    journal_->spill(
        {"/ssd/spills/" + std::to_string(++spills_) + ".spill", room, [this] { --rooms_; }});
    return true;
  }
  std::vector<std::string> spills() const {
    std::vector<std::string> paths = files_.paths();
    std::erase_if(paths, [](const std::string& path) { return !path.starts_with("/ssd/"); });
    return paths;
  }
  size_t released() const {
    return static_cast<size_t>(std::count(released_.begin(), released_.end(), true));
  }

  void expect_whole() {
    journal_->seal(slots_.size());
    ASSERT_TRUE(comes_true([this] { return has_ended_.load(); }));
    ASSERT_TRUE(ended_status_.ok()) << ended_status_.message();
    EXPECT_EQ(durable_, slots_.size());
    std::vector<std::byte> expected;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const auto bytes = some_bytes(i, kSlotBytes);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(files_.content(kJournal), expected);
    EXPECT_EQ(spills_in_area_, 0U);
    journal_.reset();
    EXPECT_EQ(spills(), std::vector<std::string>());
  }

  FaultFileSystem files_;
  StandingFileSystem standing_{files_, "/j"};
  std::deque<std::vector<std::byte>> slots_;
  std::deque<std::atomic<bool>> released_;
  std::atomic<uint64_t> durable_{0};
  std::atomic<uint32_t> spills_in_area_{0};  // as the staging area would have it
  std::atomic<bool> has_ended_{false};
  std::atomic<int> local_failures_{0}, rooms_{0}, unreadable_{0};
  int spills_ = 0;
  Status ended_status_;
  std::shared_ptr<JournalReceiver> journal_;
};

// But for one, perhaps, that the store was asked to take.
TEST_F(SpillingJournal, KeepsNoSlotsOfAStoreThatStands) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 6; ++i) add();
  ASSERT_TRUE(comes_true([this] { return spill(); }));
  ASSERT_TRUE(comes_true([this] { return released() >= 5; }));
  EXPECT_FALSE(journal_->keeps_slots());
  EXPECT_EQ(spills_in_area_, 1U);
  EXPECT_FALSE(files_.exists(kJournal));
  standing_.stand(false);
  expect_whole();
  EXPECT_EQ(rooms_, 0);
}

TEST_F(SpillingJournal, TakesNoMoreRoomThanItIsGiven) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 8; ++i) add();
  for (size_t expected = 2; expected <= 6; expected += 2) {
    ASSERT_TRUE(comes_true([this] { return spill(2 * kSlotBytes + 99); }));
    ASSERT_TRUE(comes_true([&] { return released() == expected; }));
  }
  for (const std::string& path : spills()) {
    EXPECT_LE(files_.content(path).size(), 2 * kSlotBytes + 99);
  }
  standing_.stand(false);
  expect_whole();
  EXPECT_EQ(rooms_, 0);
}

// One slot at least comes to an end, or nothing would.
TEST_F(SpillingJournal, PutsOneSlotIntoAnyRoom) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 3; ++i) add();
  ASSERT_TRUE(comes_true([this] { return spill(1); }));
  ASSERT_TRUE(comes_true([this] { return released() == 1; }));
  standing_.stand(false);
  expect_whole();
}

TEST_F(SpillingJournal, ALocalTierThatFailsCostsNothing) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 4; ++i) add();
  files_.inject({0, device_failure(EIO), false, true});
  ASSERT_TRUE(comes_true([this] { return spill(); }));
  ASSERT_TRUE(comes_true([this] { return local_failures_ == 1; }));
  EXPECT_EQ(released(), 0U);
  ASSERT_TRUE(comes_true([this] { return rooms_ == 0; })) << "no file needs the room";
  files_.heal();
  standing_.stand(false);
  expect_whole();
}

TEST_F(SpillingJournal, AnotherBackendWaitsForALocalTierThatCannotBeRead) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 4; ++i) add();
  ASSERT_TRUE(comes_true([this] { return spill(); }));
  ASSERT_TRUE(comes_true([this] { return released() >= 3; }));
  // Before the store returns: then its thread begins nothing more, and the spill is there.
  journal_->leave();
  std::thread returns([this] { standing_.stand(false); });
  unreadable_ = 20;
  take_over();
  returns.join();
  expect_whole();
  EXPECT_LE(unreadable_, 0);
}

// Its slots would be taken for written, and the journal have zeros in their place.
TEST_F(SpillingJournal, FailsWhereASpillHasGone) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 7; ++i) add();
  for (size_t expected = 2; expected <= 4; expected += 2) {
    ASSERT_TRUE(comes_true([this] { return spill(2 * kSlotBytes + 99); }));
    ASSERT_TRUE(comes_true([&] { return released() == expected; }));
  }
  ASSERT_EQ(spills().size(), 2U);
  journal_->leave();
  std::thread returns([this] { standing_.stand(false); });
  journal_.reset();
  returns.join();
  files_.erase(spills().front());
  start();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!released_[i]) hand_over(i);
  }
  journal_->all_found();
  journal_->seal(slots_.size());
  ASSERT_TRUE(comes_true([this] { return has_ended_.load(); }));
  EXPECT_EQ(ended_status_.code(), Code::kNotFound);
  EXPECT_NE(ended_status_.message().find("1 file(s)"), std::string::npos)
      << ended_status_.message();
  EXPECT_EQ(durable_, 0U);
}

TEST_F(SpillingJournal, OneThatNobodyWantsLeavesNoFiles) {
  start();
  standing_.stand(true);
  for (int i = 0; i < 4; ++i) add();
  ASSERT_TRUE(comes_true([this] { return spill(); }));
  ASSERT_TRUE(comes_true([this] { return released() >= 3; }));
  EXPECT_EQ(spills().size(), 1U);
  std::thread returns([this] { standing_.stand(false); });
  journal_.reset();
  returns.join();
  EXPECT_EQ(spills(), std::vector<std::string>());
  EXPECT_EQ(rooms_, 0);
}

TEST_F(SpillingJournal, EachSlotComesToItWhateverHappens) {
  // How many of them have a spill when another backend takes over is up to the threads.
  constexpr unsigned kHistories = 200, kWithSpills = 50, kMost = 100'000;
  unsigned taken_over_with_spills = 0;
  for (unsigned seed = 0; seed < kHistories || taken_over_with_spills < kWithSpills; ++seed) {
    ASSERT_LT(seed, kMost);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    start();
    for (int step = 0; step < 40; ++step) {
      const unsigned kind = random() % 16;
      if (kind < 8) {
        add();
      } else if (kind < 12) {
        (void)spill(random() % 3 == 0 ? 250 : UINT64_MAX);
      } else if (kind < 14) {
        standing_.stand(random() % 2 == 0);
      } else if (kind == 14) {
        std::this_thread::yield();
      } else {
        standing_.stand(false);
        unreadable_ = static_cast<int>(random() % 3);
        taken_over_with_spills += spills_in_area_ > 0 ? 1 : 0;
        take_over();
      }
    }
    standing_.stand(false);
    expect_whole();
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(files_.remove(kJournal).ok());
    slots_.clear();
    released_.clear();
    has_ended_ = false;
  }
}

}  // namespace
}  // namespace gpusnap::test
