// A store that does not answer when a checkpoint comes: the node's own tiers take it meanwhile.
#include <gtest/gtest.h>

#include <thread>

#include "backend_support.h"
#include "standing_file_system.h"

namespace gpusnap::test {
namespace {

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

// The one that takes over goes on with what is on the local tier.
TEST_F(StandingStoreTest, JournalsThatWaitForItKeepNoMemory) {
  start(PlacementPolicy::kSsdOnly);
  auto client = std::move(StagingClient::join(*memory_).value());
  const std::string file = "/store/demo/" + journal_name(job_);
  standing_.stand(true);
  const auto stream = client->open(StreamKind::kJournal, encode(JournalText{file}));
  ASSERT_TRUE(stream.ok());
  std::vector<std::byte> expected;
  const auto hand_over = [&] {
    const auto slot = client->claim(60s);
    ASSERT_TRUE(slot.ok()) << "the journal has all slots";
    const auto to = memory_->bytes(slot.value());
    for (std::byte& byte : to) byte = static_cast<std::byte>(expected.size() * 31 >> 7);
    const Piece piece{0, expected.size(), to.size()};
    expected.insert(expected.end(), to.begin(), to.end());
    client->hand_over(stream.value(), slot.value(), to.size(), {&piece, 1});
  };
  const size_t all = 3 * memory_->slots().size();
  for (size_t i = 0; i < all; ++i) hand_over();
  EXPECT_FALSE(files_.exists(file));
  std::thread returns([this] { standing_.stand(false); });
  stop();
  returns.join();
  start(PlacementPolicy::kSsdOnly);
  for (size_t i = 0; i < 5; ++i) hand_over();
  client->seal(stream.value());
  EXPECT_TRUE(comes_true([&] { return client->outcome(stream.value()).has_value(); }));
  EXPECT_TRUE(client->outcome(stream.value())->ok());
  EXPECT_EQ(files_.content(file), expected);
  client->close(stream.value());
  client.reset();
  drain();
  EXPECT_EQ(on_ssd(), std::vector<std::string>());
}

}  // namespace
}  // namespace gpusnap::test
