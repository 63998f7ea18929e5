#include "tiers/daemon/in_flight.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tiers/daemon/start.h"
#include "tiers/staging/client.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

CheckpointText checkpoint(uint64_t epoch) {
  CheckpointText text;
  text.store = "/store";
  text.job = "wave";
  text.run = "r1";
  text.epoch = epoch;
  return text;
}

class OnTheWayTest : public testing::Test {
 protected:
  OnTheWayTest()
      : memory_(std::move(StagingMemory::make_private({4096, 16384}).value())),
        server_(*memory_),
        client_(std::move(StagingClient::join(*memory_).value())) {}

  uint32_t open(uint64_t epoch) {
    return client_->open(StreamKind::kCheckpoint, encode(checkpoint(epoch))).value();
  }
  Fate fate(const InFlight::Part& part) {
    why_.clear();
    return fate_of(*memory_, part.stream, why_);
  }

  std::unique_ptr<StagingMemory> memory_;
  StagingServer server_;
  std::unique_ptr<StagingClient> client_;
  std::string why_;
};

TEST_F(OnTheWayTest, FindsPartsAndJournalsAndWhetherTheyAreSealed) {
  EXPECT_TRUE(look_at(*memory_).parts.empty());
  (void)open(1);
  const uint32_t sealed = open(2);
  client_->seal(sealed);
  const std::string journal = encode(JournalText{"/store/wave/r1-r0.journal"});
  ASSERT_TRUE(client_->open(StreamKind::kJournal, journal).ok());
  const InFlight found = look_at(*memory_);
  ASSERT_EQ(found.parts.size(), 2U);
  EXPECT_EQ(found.parts[0].text, checkpoint(1));
  EXPECT_FALSE(found.parts[0].sealed);
  EXPECT_EQ(found.parts[1].text, checkpoint(2));
  EXPECT_TRUE(found.parts[1].sealed);
  ASSERT_EQ(found.journals.size(), 1U);
  EXPECT_EQ(found.journals[0].text.file, "/store/wave/r1-r0.journal");
}

TEST_F(OnTheWayTest, KnowsWhetherAJournalMayGrow) {
  const auto open_journal = [](StagingClient& client) {
    return client.open(StreamKind::kJournal, encode(JournalText{"/store/wave/r1-r0.journal"}))
        .value();
  };
  const uint32_t ours = open_journal(*client_);
  const auto grows = [&] { return look_at(*memory_).journals.at(0).grows; };
  EXPECT_TRUE(grows());
  client_->seal(ours);
  EXPECT_FALSE(grows());
  server_.end(ours, {});
  client_->close(ours);
  // Before the server has found out that its program has ended.
  open_journal(*client_);
  EXPECT_TRUE(grows());
  ClientEntry& program = memory_->clients()[0];
  const uint64_t started = std::exchange(program.started, 1);  // another process, long ago
  EXPECT_FALSE(grows());
  server_.reap();
  EXPECT_FALSE(grows());
  program.started = started;
}

TEST_F(OnTheWayTest, KnowsWhatOutlivesTheNodesMemory) {
  const uint32_t part = open(1);
  const uint32_t life = server_.life(part);
  server_.held(part, life);
  EXPECT_FALSE(look_at(*memory_).parts.at(0).held) << "not all of it is there";
  client_->seal(part);
  EXPECT_TRUE(look_at(*memory_).parts.at(0).held);
  // Another one in its place.
  server_.end(part, {});
  client_->close(part);
  EXPECT_EQ(open(2), part);
  client_->seal(part);
  server_.held(part, life);
  EXPECT_FALSE(look_at(*memory_).parts.at(0).held);
}

TEST_F(OnTheWayTest, LeavesOutWhatMakesNoSense) {
  ASSERT_TRUE(client_->open(StreamKind::kCheckpoint, "nonsense").ok());
  ASSERT_TRUE(client_->open(StreamKind::kJournal, "").ok());
  EXPECT_TRUE(look_at(*memory_).parts.empty());
  EXPECT_TRUE(look_at(*memory_).journals.empty());
}

TEST_F(OnTheWayTest, TellsWhatBecameOfAPart) {
  const uint32_t good = open(1), bad = open(2), dropped = open(3);
  const InFlight found = look_at(*memory_);
  for (const InFlight::Part& part : found.parts) EXPECT_EQ(fate(part), Fate::kPending);
  client_->seal(good);
  EXPECT_EQ(fate(found.parts[0]), Fate::kPending);
  server_.end(good, {});
  EXPECT_EQ(fate(found.parts[0]), Fate::kDurable);
  server_.end(bad, {Code::kNoSpace, "the store is full"});
  EXPECT_EQ(fate(found.parts[1]), Fate::kFailed);
  EXPECT_EQ(why_, "the store is full");
  client_->abandon(dropped);
  EXPECT_EQ(fate(found.parts[2]), Fate::kGone);
  // Its place has been taken by another one.
  client_->close(good);
  EXPECT_EQ(fate(found.parts[0]), Fate::kGone);
  EXPECT_EQ(open(4), good);
  EXPECT_EQ(fate(found.parts[0]), Fate::kGone);
}

TEST_F(OnTheWayTest, KnowsWhetherAnybodyServes) {
  EXPECT_TRUE(memory_->is_served());
  memory_->header().server_started = 1;  // another process of that number, long ago
  EXPECT_FALSE(memory_->is_served());
  memory_->header().server = 0;
  EXPECT_FALSE(memory_->is_served());
}

}  // namespace
}  // namespace gpusnap
