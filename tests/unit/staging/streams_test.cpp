#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/staging/slot_size.h"
#include "tiers/staging/client.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

class StagingStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    auto memory = StagingMemory::make_private({kSlot, 4 * kSlot});
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    memory_ = std::move(memory.value());
    ASSERT_EQ(memory_->grow(100), 4U);
    server_.emplace(*memory_);
    client_ = join();
  }

  std::unique_ptr<StagingClient> join() {
    auto client = StagingClient::join(*memory_);
    EXPECT_TRUE(client.ok()) << client.status().message();
    return std::move(client.value());
  }

  uint32_t open(StreamKind kind = StreamKind::kCheckpoint) {
    const auto stream = client_->open(kind, "a stream");
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    return stream.value();
  }

  void hand_over(uint32_t stream, const std::string& text) {
    const auto slot = client_->claim(0ns);
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    std::memcpy(memory_->bytes(slot.value()).data(), text.data(), text.size());
    const Piece pieces[] = {{1, 4096, text.size() - 1}, {2, 0, 1}};
    client_->hand_over(stream, slot.value(), text.size(), pieces);
  }

  std::string text(uint32_t slot) const {
    const auto bytes = server_->bytes(slot);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::unique_ptr<StagingMemory> memory_;
  std::optional<StagingServer> server_;
  std::unique_ptr<StagingClient> client_;
};

TEST_F(StagingStreams, BringWhatWasHandedOverInOrder) {
  const uint32_t stream = open();
  hand_over(stream, "first");
  hand_over(stream, "second");
  client_->seal(stream);
  const auto news = server_->look();
  EXPECT_EQ(news.opened, std::vector{stream});
  EXPECT_EQ(news.sealed, std::vector{stream});
  ASSERT_EQ(news.arrived.size(), 2U);
  EXPECT_EQ(server_->text(stream), "a stream");
  EXPECT_EQ(server_->slots(stream), 2U);
  EXPECT_EQ(text(news.arrived[0].slot), "first");
  EXPECT_EQ(text(news.arrived[1].slot), "second");
  const auto pieces = server_->pieces(news.arrived[1].slot);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].offset, 4096U);
  EXPECT_EQ(pieces[1].range, 2U);
}

TEST_F(StagingStreams, AreReportedOnce) {
  const uint32_t stream = open();
  hand_over(stream, "text");
  client_->seal(stream);
  (void)server_->look();
  const auto news = server_->look();
  EXPECT_TRUE(news.opened.empty() && news.arrived.empty() && news.sealed.empty());
}

TEST_F(StagingStreams, AreReportedAgainToAServerThatTakesOver) {
  const uint32_t stream = open();
  hand_over(stream, "first");
  hand_over(stream, "second");
  client_->seal(stream);
  const auto before = server_->look();
  server_->release(before.arrived[0].slot);
  server_.emplace(*memory_);
  const auto news = server_->look();
  EXPECT_EQ(news.opened, std::vector{stream});
  EXPECT_EQ(news.sealed, std::vector{stream});
  ASSERT_EQ(news.arrived.size(), 1U);
  EXPECT_EQ(news.arrived[0].sequence, 1U);
  EXPECT_EQ(text(news.arrived[0].slot), "second");
}

TEST_F(StagingStreams, HaveAsManySlotsAsThereAre) {
  const uint32_t stream = open();
  for (int i = 0; i < 4; ++i) hand_over(stream, "text");
  EXPECT_EQ(client_->claim(0ns).status().code(), Code::kBusy);
  server_->release(server_->look().arrived[2].slot);
  const auto slot = client_->claim(0ns);
  ASSERT_TRUE(slot.ok());
  client_->give_back(slot.value());
}

TEST_F(StagingStreams, WakeWhoWaitsForASlot) {
  const uint32_t stream = open();
  for (int i = 0; i < 4; ++i) hand_over(stream, "text");
  std::thread waiting([&] {
    const auto slot = client_->claim(60s);
    ASSERT_TRUE(slot.ok());
    client_->give_back(slot.value());
  });
  server_->release(server_->look().arrived[0].slot);
  waiting.join();
}

TEST_F(StagingStreams, PreferTheSlotsThatTheyAreToldTo) {
  for (int i = 0; i < 20; ++i) {
    const auto slot = client_->claim(0ns, 2);
    ASSERT_TRUE(slot.ok());
    EXPECT_LT(slot.value(), 2U);
    client_->give_back(slot.value());
  }
  const auto first = client_->claim(0ns, 2);
  const auto second = client_->claim(0ns, 2);
  const auto third = client_->claim(0ns, 2);
  EXPECT_GE(third.value(), 2U);
  for (const auto& slot : {first, second, third}) client_->give_back(slot.value());
}

TEST_F(StagingStreams, EndWithTheServersOutcome) {
  const uint32_t stream = open();
  client_->seal(stream);
  EXPECT_FALSE(client_->outcome(stream).has_value());
  (void)server_->look();
  server_->end(stream, Status(Code::kNoSpace, "the disk is full"));
  ASSERT_TRUE(client_->outcome(stream).has_value());
  EXPECT_EQ(client_->outcome(stream)->code(), Code::kNoSpace);
  EXPECT_EQ(client_->outcome(stream)->message(), "the disk is full");
  client_->close(stream);
  EXPECT_EQ(open(), stream);
}

TEST_F(StagingStreams, LoseWhatComesAfterTheirEnd) {
  const uint32_t stream = open();
  (void)server_->look();
  server_->end(stream, Status(Code::kIo, "it failed"));
  hand_over(stream, "too late");
  EXPECT_TRUE(server_->look().arrived.empty());
  client_->close(stream);
  client_.reset();
  server_->reap();
  EXPECT_TRUE(server_->is_idle());
}

TEST_F(StagingStreams, DoNotTakeWhatWasHandedOverToAnEarlierLife) {
  const uint32_t stream = open();
  (void)server_->look();
  server_->end(stream, Status(Code::kIo, "it failed"));
  hand_over(stream, "of the old one");
  client_->close(stream);
  ASSERT_EQ(open(), stream);
  hand_over(stream, "of the new one");
  const auto news = server_->look();
  ASSERT_EQ(news.arrived.size(), 1U);
  EXPECT_EQ(text(news.arrived[0].slot), "of the new one");
}

TEST_F(StagingStreams, AreFreeOnceTheyWereAbandonedAndEnded) {
  const uint32_t stream = open();
  hand_over(stream, "text");
  client_->abandon(stream);
  EXPECT_EQ(server_->look().abandoned, std::vector{stream});
  server_->end(stream, {});
  (void)server_->look();  // the slot
  client_.reset();
  server_->reap();
  EXPECT_TRUE(server_->is_idle());
}

TEST_F(StagingStreams, MayEndWhileTheyAreAbandoned) {
  const uint32_t stream = open();
  (void)server_->look();
  server_->end(stream, {});
  client_->abandon(stream);
  EXPECT_EQ(open(), stream);
}

TEST_F(StagingStreams, TellHowMuchIsDurable) {
  const uint32_t stream = open(StreamKind::kJournal);
  EXPECT_EQ(client_->durable(stream), 0U);
  server_->progress(stream, 7);
  EXPECT_EQ(client_->durable(stream), 7U);
}

TEST_F(StagingStreams, RefuseTextThatIsTooLong) {
  EXPECT_EQ(client_->open(StreamKind::kJournal, std::string(kStreamText + 1, 'x')).status().code(),
            Code::kInvalid);
}

TEST_F(StagingStreams, AreBoundedInNumber) {
  for (uint32_t i = 0; i < kMostStreams; ++i) EXPECT_EQ(open(), i);
  EXPECT_EQ(client_->open(StreamKind::kJournal, "").status().code(), Code::kBusy);
}

TEST_F(StagingStreams, KeepTheAreaOpen) {
  const uint32_t stream = open();
  client_->seal(stream);
  client_.reset();
  (void)server_->look();
  server_->reap();
  EXPECT_FALSE(server_->close()) << "a sealed stream is to be kept";
  server_->end(stream, {});
  EXPECT_TRUE(server_->close());
  EXPECT_EQ(StagingClient::join(*memory_).status().code(), Code::kNotFound);
}

// Every byte of every sealed stream arrives once, from several threads and clients at once.
TEST_F(StagingStreams, OfManyThreadsArriveWhole) {
  constexpr int kClients = 3, kStreams = 20;
  constexpr uint64_t kHandedOver = 12;
  std::atomic<int> running{kClients};
  std::vector<std::thread> threads;
  for (int number = 0; number < kClients; ++number) {
    threads.emplace_back([&, number] {
      const auto client = join();
      std::mt19937 random(static_cast<unsigned>(number));
      for (int i = 0; i < kStreams; ++i) {
        const auto stream = client->open(StreamKind::kCheckpoint, std::to_string(number));
        ASSERT_TRUE(stream.ok());
        const bool keep = random() % 4 != 0;
        for (uint64_t n = 0; n < kHandedOver; ++n) {
          const auto slot = client->claim(600s);
          ASSERT_TRUE(slot.ok());
          std::ranges::fill(memory_->bytes(slot.value()), std::byte(n));
          client->hand_over(stream.value(), slot.value(), kSlot - n, {});
        }
        if (!keep) {
          client->abandon(stream.value());
          continue;
        }
        client->seal(stream.value());
        while (!client->outcome(stream.value())) client->wait(client->changes(), 1ms);
        EXPECT_TRUE(client->outcome(stream.value())->ok());
        client->close(stream.value());
      }
      --running;
    });
  }
  std::map<uint32_t, uint64_t> arrived;
  std::vector<uint32_t> sealed;
  const auto step = [&] {
    const uint32_t seen = server_->changes();
    const auto news = server_->look();
    for (const uint32_t stream : news.opened) arrived[stream] = 0;
    for (const auto& arrival : news.arrived) {
      EXPECT_EQ(arrival.sequence, arrived[arrival.stream]++);
      const auto bytes = server_->bytes(arrival.slot);
      EXPECT_EQ(bytes.size(), kSlot - arrival.sequence);
      EXPECT_TRUE(std::ranges::all_of(
          bytes, [&](std::byte byte) { return byte == std::byte(arrival.sequence); }));
      server_->release(arrival.slot);
    }
    for (const uint32_t stream : news.sealed) {
      EXPECT_EQ(server_->slots(stream), kHandedOver);
      EXPECT_EQ(arrived[stream], kHandedOver);
      server_->end(stream, {});
    }
    for (const uint32_t stream : news.abandoned) server_->end(stream, {});
    server_->wait(seen, 1ms);
  };
  while (running > 0) step();
  for (std::thread& thread : threads) thread.join();
  client_.reset();
  for (int i = 0; i < 100 && !server_->is_idle(); ++i) {
    step();
    server_->reap();
  }
  EXPECT_TRUE(server_->is_idle());
}

}  // namespace
}  // namespace gpusnap
