// A recording and its replay, with two memories in the place of one: what the device does happens
// in the recorded memory only, and must reach the replayed one through the deliveries.
#include "interpose/model/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace gpusnap {
namespace {

constexpr uint64_t kSize = 5 * 4096 + 100;

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() : recorded_(kSize), replayed_(kSize) {
    recorder_.add(address(recorded_), kSize);
    recorder_.may_change_all();
    replayer_.add(address(replayed_), kSize);
  }
  static uint64_t address(const std::vector<std::byte>& memory) {
    return reinterpret_cast<uint64_t>(memory.data());
  }

  // Host code runs in both.
  template <class Code>
  void host(Code&& code) {
    code(recorded_);
    code(replayed_);
  }
  // Kernels run in the recording only.
  template <class Code>
  void device(Code&& code) {
    code(recorded_);
  }
  // A synchronisation: captured there, delivered here.
  size_t synchronise(const HostMemory::Look& arrived = {}) {
    std::vector<Delivery> deliveries;
    uint8_t looked_at = 0;
    EXPECT_TRUE(recorder_.capture(arrived, deliveries, looked_at));
    for (const Delivery& delivery : deliveries) {
      EXPECT_EQ(delivery.head.kind, DeliveryHead::kMemory);
      const auto mirror =
          replayer_.mirror(address(replayed_), delivery.head.offset, delivery.head.size);
      EXPECT_EQ(mirror.size(), delivery.block.bytes());
      if (!mirror.empty()) std::memcpy(mirror.data(), delivery.block.start, mirror.size());
    }
    if (looked_at == kCaptured) replayer_.settle();
    if (looked_at == kPartlyCaptured) replayer_.settle(address(replayed_));
    return deliveries.size();
  }
  void expect_equal() const { EXPECT_TRUE(recorded_ == replayed_); }

  std::vector<std::byte> recorded_, replayed_;
  HostMemory recorder_, replayer_;
};

TEST_F(HostMemoryTest, DeviceWritesReachTheReplay) {
  device([](auto& m) { m[17] = std::byte{1}; });
  device([](auto& m) { m[kSize - 1] = std::byte{2}; });
  EXPECT_EQ(synchronise(), 2U);
  expect_equal();
}

TEST_F(HostMemoryTest, NothingChangedIsNothingJournaled) {
  synchronise();
  EXPECT_EQ(synchronise(), 0U);
}

// The host sets a flag, the device sets it back: against what the device left last time nothing has
// changed, and still the replay's memory must follow.
TEST_F(HostMemoryTest, AByteThatTheDeviceSetsBackIsSetBackInTheReplay) {
  device([](auto& m) { m[5] = std::byte{1}; });
  synchronise();
  for (int i = 0; i < 3; ++i) {
    host([](auto& m) { m[5] = std::byte{0}; });
    device([](auto& m) { m[5] = std::byte{1}; });
    synchronise();
    expect_equal();
  }
}

TEST_F(HostMemoryTest, ContentBeforeTheFirstLookMayDiffer) {
  // The contents of fresh memory are the driver's business, and differ between processes.
  std::ranges::fill(recorded_, std::byte{0xaa});
  std::ranges::fill(replayed_, std::byte{0x55});
  synchronise();
  expect_equal();
}

TEST_F(HostMemoryTest, JournaledCopiesAreNoNews) {
  auto copied = [](auto& m) { std::fill(m.begin() + 4096, m.begin() + 8192, std::byte{7}); };
  host(copied);  // the copy's own answer brings it to the replay
  recorder_.note_copied(address(recorded_) + 4096, 4096);
  replayer_.note_copied(address(replayed_) + 4096, 4096);
  EXPECT_EQ(synchronise(), 0U);
  expect_equal();
}

TEST_F(HostMemoryTest, RandomHistoriesEndEqual) {
  std::mt19937 random(20);
  for (int step = 0; step < 2000; ++step) {
    const size_t at = random() % kSize;
    const size_t size = std::min<size_t>(kSize - at, random() % 9000);
    const auto value = static_cast<std::byte>(random() % 3);
    auto write = [&](auto& m) { std::fill_n(m.begin() + static_cast<ptrdiff_t>(at), size, value); };
    switch (random() % 3) {
      case 0:
        host(write);
        break;
      case 1:
        device(write);
        break;
      default:
        synchronise();
        expect_equal();
    }
  }
}

TEST_F(HostMemoryTest, DeliveriesToMemoryThatIsNotThereAreRefused) {
  EXPECT_TRUE(replayer_.mirror(address(replayed_), kSize, 1).empty());
  EXPECT_TRUE(replayer_.mirror(address(replayed_), 1, kSize).empty());
  EXPECT_TRUE(replayer_.mirror(address(replayed_) + 1, 0, 1).empty());
  EXPECT_TRUE(replayer_.mirror(address(replayed_), UINT64_MAX, 2).empty());
  replayer_.remove(address(replayed_));
  EXPECT_TRUE(replayer_.mirror(address(replayed_), 0, 1).empty());
}

// Another thread may be at its own memory while one synchronises.
TEST_F(HostMemoryTest, MemoryThatNoCallMayHaveWrittenIsLeftAlone) {
  recorder_.is_settled();
  WriteSet elsewhere;
  elsewhere.add(address(recorded_) - 8, 8);
  elsewhere.add(address(recorded_) + kSize, 8);
  recorder_.may_change(elsewhere);
  host([](auto& m) { m[3] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 0U);
  host([](auto& m) { m[3] = std::byte{2}; });
  expect_equal();
}

TEST_F(HostMemoryTest, AWriteAnywhereInTheRangeIsSeen) {
  const uint64_t start = address(recorded_);
  for (const auto& [from, size] : {std::pair<uint64_t, uint64_t>{start, 1},
                                   {start + kSize - 1, 1},
                                   {start - 100, 101},
                                   {start + kSize / 2, WriteSet::kWholeRange}}) {
    recorder_.is_settled();
    WriteSet set;
    set.add(from, size);
    recorder_.may_change(set);
    device([](auto& m) { m[kSize / 2] ^= std::byte{1}; });
    EXPECT_EQ(synchronise(), 1U);
    expect_equal();
  }
}

// A change by the host that the device undoes is no news to the recording, yet the replay must undo
// the host's change, too.
TEST_F(HostMemoryTest, ARangeThatWasLookedAtInVainIsTold) {
  recorder_.is_settled();
  WriteSet set;
  set.add(address(recorded_), 1);
  recorder_.may_change(set);
  host([](auto& m) { m[0] = std::byte{9}; });
  device([](auto& m) { m[0] = std::byte{0}; });
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
}

// A later change is the host's doing: another thread's capture leaves it.
TEST_F(HostMemoryTest, ARangeIsLookedAtWhenAWriteHasArrived) {
  recorder_.is_settled();
  WriteSet set;
  set.add(address(recorded_), 1);
  set.add(address(recorded_) + 1, 1);
  HostMemory::Look look;
  recorder_.for_each_range(set, [&](uint64_t range) { look.arrived.push_back(range); });
  EXPECT_EQ(look.arrived.size(), 2U);
  device([](auto& m) { m[0] = std::byte{5}; });
  EXPECT_EQ(synchronise(look), 1U);
  expect_equal();
  host([](auto& m) { m[0] = std::byte{6}; });
  EXPECT_EQ(synchronise(), 0U);
  expect_equal();
}

TEST_F(HostMemoryTest, OnlyWritesOfThisMemoryHaveRanges) {
  WriteSet none, elsewhere, here, unsaid;
  none.add_nothing();
  elsewhere.add(1, 16);
  here.add(address(recorded_), 1);
  EXPECT_FALSE(recorder_.has_range_of(none));
  EXPECT_FALSE(recorder_.has_range_of(elsewhere));
  EXPECT_FALSE(recorder_.has_range_of(unsaid));
  EXPECT_TRUE(recorder_.has_range_of(here));
  // It may be written at an address that nobody has told.
  recorder_.has_other_address(address(recorded_));
  EXPECT_TRUE(recorder_.has_range_of(elsewhere));
  EXPECT_FALSE(recorder_.has_range_of(none));
}

TEST_F(HostMemoryTest, AWriteOfBeforeIsNoneOfTheMemoryThatCameAfter) {
  recorder_.is_settled();
  WriteSet set;
  set.add(address(recorded_), 1);
  HostMemory::Look before, after;
  recorder_.for_each_range(set, [&](uint64_t range) { before.arrived.push_back(range); });
  recorder_.remove(address(recorded_));
  recorder_.add(address(recorded_), kSize);
  recorder_.for_each_range(set, [&](uint64_t range) { after.arrived.push_back(range); });
  device([](auto& m) { m[0] = std::byte{5}; });
  EXPECT_EQ(synchronise(before), 0U);
  EXPECT_EQ(synchronise(after), 1U);
  expect_equal();
}

TEST_F(HostMemoryTest, ASetThatNobodyGaveIsEverything) {
  recorder_.is_settled();
  recorder_.may_change({});
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
  WriteSet nothing;
  nothing.add_nothing();
  recorder_.is_settled();
  recorder_.may_change(nothing);
  device([](auto& m) { m[7] = std::byte{2}; });
  EXPECT_EQ(synchronise(), 0U);
  recorder_.has_other_address(address(recorded_));
  WriteSet other;
  other.add(0x1000, 8);
  recorder_.may_change(other);
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
}

// A guess names what it knows of, and stands for everything.
TEST_F(HostMemoryTest, WhileHostCodeRunsOnlyWhatHasArrivedIsCaptured) {
  std::vector<std::byte> other(kSize);
  recorder_.add(address(other), kSize);
  recorder_.is_settled();
  WriteSet guess;
  guess.add(address(recorded_), 1);
  guess.add_guess(3);
  HostMemory::Look look;
  look.alone = false;
  recorder_.for_each_range(guess, [&](uint64_t range) { look.arrived.push_back(range); });
  EXPECT_EQ(look.arrived.size(), 1U);
  recorder_.may_change_all();
  std::vector<Delivery> deliveries;
  uint8_t flags = 0;
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_TRUE(recorder_.capture(look, deliveries, flags));
  EXPECT_EQ(flags, kPartlyCaptured);
  ASSERT_EQ(deliveries.size(), 1U);
  EXPECT_EQ(deliveries[0].head.target, address(recorded_));
  // That may be the host's doing, or the kernel's.
  other[5] = std::byte{1};
  EXPECT_FALSE(recorder_.capture(look, deliveries, flags));
  // After the kernel, and when the device is idle.
  look.arrived.clear();
  deliveries.clear();
  flags = 0;
  EXPECT_FALSE(recorder_.capture(look, deliveries, flags));
  recorder_.is_settled();
  EXPECT_TRUE(recorder_.capture(look, deliveries, flags));
  EXPECT_EQ(flags, 0);
  EXPECT_TRUE(deliveries.empty());
}

TEST_F(HostMemoryTest, WhatTheDeviceMayBeWritingIsLookedAtUnlessAHostFunctionRuns) {
  recorder_.is_settled();
  WriteSet set;
  set.add(address(recorded_), 1);
  HostMemory::Look look;
  recorder_.for_each_range(set, [&](uint64_t range) { look.doubtful.push_back(range); });
  std::vector<Delivery> deliveries;
  uint8_t flags = 0;
  look.functions_run = true;
  look.alone = false;
  EXPECT_TRUE(recorder_.capture(look, deliveries, flags));
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_FALSE(recorder_.capture(look, deliveries, flags));
  EXPECT_TRUE(deliveries.empty());
  EXPECT_EQ(flags, 0);
  look.functions_run = false;
  EXPECT_TRUE(recorder_.capture(look, deliveries, flags));
  EXPECT_EQ(deliveries.size(), 1U);
}

TEST_F(HostMemoryTest, AGuessIsEverything) {
  recorder_.is_settled();
  WriteSet guess;
  guess.add(0x1000, 8);
  guess.add_guess(3);
  recorder_.may_change(guess);
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
}

// Another thread makes changes elsewhere, and makes them again in a replay.
TEST_F(HostMemoryTest, ATrustedGuessIsWhatItNames) {
  recorder_.is_settled();
  recorder_.trust_guesses();
  WriteSet elsewhere;
  elsewhere.add(0x1000, 8);
  elsewhere.add_guess(3);
  recorder_.may_change(elsewhere);
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 0U);
  WriteSet here;
  here.add(address(recorded_), 1);
  here.add_guess(3);
  recorder_.may_change(here);
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
}

// No change that the host may have made is in doubt for it: the guess is all that there is.
TEST_F(HostMemoryTest, AGuessIsNoDoubtBesideHostFunctions) {
  recorder_.is_settled();
  WriteSet guess;
  guess.add(0x1000, 8);
  guess.add_guess(3);
  recorder_.may_change(guess);
  host([](auto& m) { m[7] = std::byte{1}; });
  HostMemory::Look look;
  look.alone = false;
  std::vector<Delivery> deliveries;
  uint8_t flags = 0;
  EXPECT_TRUE(recorder_.capture(look, deliveries, flags));
  EXPECT_TRUE(deliveries.empty());
  WriteSet unknown;
  unknown.add_unknown(3);
  recorder_.may_change(unknown);
  EXPECT_FALSE(recorder_.capture(look, deliveries, flags));
}

// To compare all of it would take long.
TEST_F(HostMemoryTest, AGuessIsTrustedBesideMuchMemory) {
  recorder_.is_settled();
  std::vector<std::byte> large(HostMemory::kComparedInFull);
  WriteSet elsewhere;
  elsewhere.add(0x1000, 8);
  elsewhere.add_guess(3);
  EXPECT_FALSE(recorder_.is_told_by(elsewhere));
  recorder_.add(address(large), large.size());
  EXPECT_TRUE(recorder_.is_told_by(elsewhere));
  recorder_.may_change(elsewhere);
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 0U);
  recorder_.remove(address(large));
  EXPECT_FALSE(recorder_.is_told_by(elsewhere));
}

TEST_F(HostMemoryTest, PartsComeInTurn) {
  std::vector<std::byte> large(300 << 10);
  recorder_.add(address(large), large.size());
  const auto next = [&](uint64_t told = 0) {
    return recorder_.next_untold([told](uint64_t range) { return range == told; });
  };
  EXPECT_TRUE(next().empty()) << "nothing is watched";
  recorder_.watch(address(large));
  for (int turn = 0; turn < 3; ++turn) {
    size_t bytes = 0;
    for (int part = 0; part < 3; ++part) {
      const auto here = next();
      EXPECT_EQ(here.data(), large.data() + bytes);
      bytes += here.size();
    }
    EXPECT_EQ(bytes, large.size());
  }
  EXPECT_TRUE(next(2).empty()) << "a write tells of it";
  recorder_.remove(address(large));
  EXPECT_TRUE(next().empty());
}

TEST_F(HostMemoryTest, WhatIsUnknownIsNeverTrusted) {
  recorder_.is_settled();
  recorder_.trust_guesses();
  WriteSet unknown;
  unknown.add(0x1000, 8);
  unknown.add_unknown(3);
  recorder_.may_change(unknown);
  device([](auto& m) { m[7] = std::byte{1}; });
  EXPECT_EQ(synchronise(), 1U);
  expect_equal();
}

}  // namespace
}  // namespace gpusnap
