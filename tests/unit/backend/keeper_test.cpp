// SPDX-License-Identifier: Apache-2.0
//
// Parts that stay in the staging area of a backend.
#include "tiers/backend/keeper.h"

#include <random>

#include "backend_support.h"
#include "tiers/daemon/pending_part.h"

namespace gpusnap::test {
namespace {

class KeeperTest : public BackendTest {
 protected:
  // An image has 14 slots.
  KeeperTest() : BackendTest(64) { (void)memory_->grow(64); }

  void start(std::chrono::nanoseconds keeps = 1h) {
    Backend::Options options;
    options.keeps = keeps;
    BackendTest::start(std::move(options));
  }
  std::unique_ptr<Saver> saver(bool journal = true) {
    auto made = std::make_unique<Saver>(*memory_, "/store", job_);
    made->in_memory = true;
    if (journal) made->open_journal();
    return made;
  }
  void keep(Saver& saver, uint64_t epoch) { ASSERT_TRUE(saver.wait_kept(saver.save(epoch))); }

  // Epochs of which a restore finds the part whole.
  std::vector<uint64_t> restorable() {
    std::vector<uint64_t> epochs;
    for (uint64_t epoch = 1; epoch < 20; ++epoch) {
      for (const auto& part : pending_parts(*memory_, "/store", job_.name, epoch)) {
        if (read_pending(files_, {memory_.get(), "/area", {}}, part).ok()) epochs.push_back(epoch);
      }
    }
    return epochs;
  }
  bool becomes_restorable(const std::vector<uint64_t>& epochs) {
    return comes_true([&] { return restorable() == epochs; });
  }
  bool is_in_store(uint64_t epoch) {
    return files_.exists("/store/demo/e" + std::to_string(epoch) + "/r0.manifest");
  }
  size_t filled() {
    return static_cast<size_t>(std::ranges::count_if(memory_->slots(), [](const SlotEntry& slot) {
      return slot.word.load().state == SlotState::kFilled;
    }));
  }
};

TEST_F(KeeperTest, StaysInMemoryUntilALaterOneIsThere) {
  start();
  const auto saver = this->saver();
  for (uint64_t epoch = 1; epoch <= 9; ++epoch) {
    keep(*saver, epoch);
    EXPECT_TRUE(becomes_restorable({epoch})) << epoch;
    EXPECT_TRUE(comes_true([&] { return filled() < 20; })) << "it keeps two images";
    EXPECT_FALSE(is_in_store(epoch));
  }
  saver->go();
  drain();
  expect_back(9);
  for (uint64_t epoch = 1; epoch < 9; ++epoch) EXPECT_FALSE(is_in_store(epoch)) << epoch;
}

TEST_F(KeeperTest, OfSeveralRanksUntilALaterOneIsSaidToBeComplete) {
  job_.ranks = 2;
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  saver->complete = 1;
  keep(*saver, 2);
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{1, 2}));
  saver->complete = 2;
  keep(*saver, 3);
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{2, 3}));
  // Also for one that goes to the store.
  saver->complete = 3;
  saver->in_memory = false;
  EXPECT_TRUE(saver->wait(saver->save(4)).ok());
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{3}));
  saver->go();
  drain();
}

TEST_F(KeeperTest, OfOneRankUntilALaterOneIsInTheStore) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  saver->in_memory = false;
  EXPECT_TRUE(saver->wait(saver->save(2)).ok());
  EXPECT_TRUE(becomes_restorable({}));
  saver->go();
  drain();
  expect_back(2);
}

TEST_F(KeeperTest, IsNotReplacedByOneThatIsGivenUp) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  saver->client().abandon(saver->save(2));
  saver->client().abandon(saver->fill(3));
  EXPECT_TRUE(becomes_restorable({1}));
  EXPECT_TRUE(comes_true([&] { return filled() < 20; }));
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{1}));
  saver->go();
  drain();
  expect_back(1);
}

TEST_F(KeeperTest, IsNotReplacedBeforeTheClientHasLeftTheLaterOne) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  const uint32_t later = saver->save(2);
  ASSERT_TRUE(comes_true([&] { return saver->client().is_kept(later); }));
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{1, 2}));
  saver->client().abandon(later);
  EXPECT_TRUE(becomes_restorable({1}));
  keep(*saver, 3);
  EXPECT_TRUE(becomes_restorable({3}));
  saver->go();
  drain();
  expect_back(3);
}

TEST_F(KeeperTest, OutlivesItsProgramAndItsBackend) {
  start();
  auto saver = this->saver();
  keep(*saver, 1);
  saver->go();
  stop();
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{1}));
  start();
  EXPECT_TRUE(becomes_restorable({1}));
  EXPECT_FALSE(is_in_store(1));
  drain();
  expect_back(1);
  expect_no_leftovers();
}

// It was sealed and the backend has not come to it.
TEST_F(KeeperTest, IsFoundWholeByTheNextBackend) {
  const auto saver = this->saver();
  (void)saver->save(1);
  saver->go();
  EXPECT_TRUE(restorable().empty()) << "its journal is not durable";
  start();
  EXPECT_TRUE(becomes_restorable({1}));
  drain();
  expect_back(1);
}

TEST_F(KeeperTest, GoesToTheStoreWhenItsProgramHasGoneForLong) {
  start(20ms);
  const auto saver = this->saver();
  keep(*saver, 1);
  std::this_thread::sleep_for(60ms);
  EXPECT_FALSE(is_in_store(1)) << "its program runs";
  saver->go();
  EXPECT_TRUE(comes_true([&] { return is_in_store(1) && filled() == 0; }));
  drain();
  expect_back(1);
}

TEST_F(KeeperTest, GoesToTheStoreWhereMemoryIsShort) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  job_.name = "other";
  Saver other(*memory_, "/store", job_);
  // It has what is left, and needs one slot more.
  std::vector<uint32_t> slots;
  while (true) {
    const auto slot = other.client().claim(0s);
    if (!slot.ok()) break;
    slots.push_back(slot.value());
  }
  const auto more = other.client().claim(60s);
  EXPECT_TRUE(more.ok());
  job_.name = "demo";
  EXPECT_TRUE(comes_true([&] { return is_in_store(1); }));
  other.go();
  saver->go();
  drain();
  expect_back(1);
}

TEST_F(KeeperTest, ABackendThatStopsWhileItSendsOneIsFollowed) {
  for (int after = 0; after < 12; ++after) {
    start();
    const auto saver = this->saver();
    const uint64_t epoch = 1 + static_cast<uint64_t>(after);
    keep(*saver, epoch);
    saver->go();
    backend_->drain();
    const size_t before = files_.operations();
    (void)comes_true([&] {
      return files_.operations() >= before + static_cast<size_t>(3 * after) || is_in_store(epoch);
    });
    stop();
    start();
    drain();
    expect_back(epoch);
    expect_no_leftovers();
  }
}

TEST_F(KeeperTest, BytesThatChangedInMemoryAreNotGivenOut) {
  start();
  const auto saver = this->saver(false);
  keep(*saver, 1);
  // A program may write there by mistake.
  for (SlotEntry& slot : memory_->slots()) {
    if (slot.word.load().state != SlotState::kFilled || slot.pieces == 0) continue;
    memory_->bytes(static_cast<uint32_t>(&slot - memory_->slots().data()))[3] ^= std::byte{1};
    break;
  }
  const auto parts = pending_parts(*memory_, "/store", job_.name, 1);
  ASSERT_EQ(parts.size(), 1U);
  const auto all = [](uint32_t, uint64_t, uint64_t) { return true; };
  const auto located = locate_pending(files_, {memory_.get(), "/area", {}}, parts.front(), all);
  EXPECT_EQ(located.status().code(), Code::kBusy);
  saver->go();
  drain();
  EXPECT_FALSE(is_in_store(1));
  EXPECT_EQ(warnings_with("was changed in memory"), 1U);
}

// An area that does not hold an image, nor what it needs of a journal.
class NarrowKeeperTest : public BackendTest {
 protected:
  NarrowKeeperTest() : BackendTest(8) {}
};

TEST_F(NarrowKeeperTest, GoesToTheStoreWhereItHasNoRoom) {
  start();
  Saver saver(*memory_, "/store", job_);
  saver.in_memory = true;
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    const Status saved = saver.wait(saver.save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
  }
  saver.go();
  drain();
  expect_back(1);
  expect_back(2);
}

// The backend ends at any moment from then on; another one goes on with what is there.
TEST_F(NarrowKeeperTest, AnotherBackendGoesOnSendingIt) {
  const auto flows = [this] {
    return std::ranges::any_of(memory_->streams(), [](const StreamEntry& entry) {
      return keeping_of(entry, entry.word.load().life) == Keeping::kFlows;
    });
  };
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  Saver saver(*memory_, "/store", job_);
  saver.in_memory = true;
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    start();
    std::thread fills([&] {
      const Status saved = saver.wait(saver.save(epoch));
      EXPECT_TRUE(saved.ok()) << saved.message();
    });
    EXPECT_TRUE(comes_true(flows));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    stop();
    start();
    fills.join();
    stop();
  }
  saver.go();
  start();
  drain();
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) expect_back(epoch);
  expect_no_leftovers();
}

TEST_F(KeeperTest, WhatBuildsOnAnotherOneIsRefused) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  const Status status = saver->wait(saver->save(2, 1));
  EXPECT_EQ(status.code(), Code::kInvalid) << status.message();
  EXPECT_EQ(restorable(), (std::vector<uint64_t>{1}));
  saver->go();
  drain();
}

TEST_F(KeeperTest, AJournalThatFailsFailsIt) {
  start();
  const auto saver = this->saver();
  keep(*saver, 1);
  files_.inject({0, device_failure(EIO), false, true});
  EXPECT_FALSE(saver->wait_kept(saver->save(2)));
  files_.heal();
  EXPECT_TRUE(becomes_restorable({1})) << "its journal was durable";
  saver->go();
  drain();
}

}  // namespace
}  // namespace gpusnap::test
