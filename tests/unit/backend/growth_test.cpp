// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/growth.h"

#include <gtest/gtest.h>

#include "backend_support.h"

namespace gpusnap::test {
namespace {

class GrowthTest : public BackendTest {
 protected:
  // Parts of one slot.
  void start(GrowthWay way = GrowthWay::kAhead, uint32_t threads = 2) {
    Backend::Options options;
    options.growth = way;
    options.forerunners = threads;
    options.growth_bytes = kSlot;
    BackendTest::start(std::move(options));
  }
  bool grows_to(uint32_t slots) {
    return comes_true([&] { return memory_->backed() == slots; });
  }
};

TEST_F(GrowthTest, AProgramThatSavesNothingTakesItsShare) {
  start();
  {
    const auto client = StagingClient::join(*memory_);
    ASSERT_TRUE(client.ok());
    EXPECT_TRUE(grows_to(Growth::kPartsAhead));
    std::this_thread::sleep_for(20ms);  // it would have taken more
    EXPECT_EQ(memory_->backed(), Growth::kPartsAhead);
  }
  drain();
}

TEST_F(GrowthTest, ReachesWhatIsInUse) {
  start();
  const auto client = StagingClient::join(*memory_);
  ASSERT_TRUE(client.ok());
  std::vector<uint32_t> slots;
  while (slots.size() < memory_->slots().size()) {
    const auto slot = client.value()->claim(20s);
    ASSERT_TRUE(slot.ok()) << slots.size();
    slots.push_back(slot.value());
  }
  for (const uint32_t slot : slots) client.value()->give_back(slot);
  stop();
}

TEST_F(GrowthTest, AtOnceTakesAll) {
  start(GrowthWay::kAtOnce, 4);
  const auto client = StagingClient::join(*memory_);
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(grows_to(24));
  stop();
}

TEST_F(GrowthTest, PausesWhileACheckpointIsHandedOver) {
  start();
  const auto client = StagingClient::join(*memory_);
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(grows_to(Growth::kPartsAhead));
  Saver saver(*memory_, "/store", job_);
  EXPECT_TRUE(grows_to(2 * Growth::kPartsAhead));
  std::vector<uint32_t> streams;
  const auto open = [&] {
    const auto stream =
        saver.client().open(StreamKind::kCheckpoint, encode(saver.text(streams.size() + 1)));
    ASSERT_TRUE(stream.ok());
    streams.push_back(stream.value());
    ASSERT_TRUE(comes_true([&] { return backend_->counters().checkpoints == streams.size(); }));
  };
  open();
  const auto third = StagingClient::join(*memory_);
  ASSERT_TRUE(third.ok());
  // Once it has seen two more streams it has looked at the clients in between.
  open();
  open();
  std::this_thread::sleep_for(20ms);  // it would have given the third client its share
  EXPECT_EQ(memory_->backed(), 2 * Growth::kPartsAhead);
  for (const uint32_t stream : streams) saver.client().abandon(stream);
  EXPECT_TRUE(grows_to(3 * Growth::kPartsAhead)) << "and goes on after it";
  stop();
}

}  // namespace
}  // namespace gpusnap::test
