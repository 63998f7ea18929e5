// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/turn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/unit/staging/slot_size.h"
#include "tiers/staging/client.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

class TicketLineTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kSlots = 3;
  void SetUp() override {
    memory_ = std::move(StagingMemory::make_private({kSlot, kSlots * kSlot}).value());
    ASSERT_EQ(memory_->grow(kSlots), kSlots);
    line_.emplace(*memory_);
  }
  void take_all(uint32_t client) {
    for (SlotEntry& slot : memory_->slots())
      ASSERT_TRUE(slot.word.take(SlotState::kClaimed, client));
  }
  void free(uint32_t slot) {
    OwnedWord<SlotState>& word = memory_->slots()[slot].word;
    word.free(word.load());
  }

  std::unique_ptr<StagingMemory> memory_;
  std::optional<TicketLine> line_;
};

TEST_F(TicketLineTest, ServesInTheOrderOfDrawing) {
  take_all(9);
  const uint32_t first = line_->draw(1).value();
  const uint32_t second = line_->draw(2).value();
  EXPECT_FALSE(line_->take_granted(first));
  free(1);
  free(2);
  EXPECT_EQ(line_->grant(1, 2, {}), 1U);
  EXPECT_FALSE(line_->take_granted(second));
  EXPECT_EQ(line_->take_granted(first), 1U);
  EXPECT_TRUE(memory_->slots()[1].word.load().is(SlotState::kClaimed, 1));
  EXPECT_TRUE(line_->is_first(second));
  EXPECT_EQ(line_->grant(0, kSlots, {}), 1U);
  EXPECT_EQ(line_->take_granted(second), 2U);
  EXPECT_FALSE(line_->anyone_waits());
}

// Entries are used again, and numbers go on.
TEST_F(TicketLineTest, OrderIsNotThatOfTheEntries) {
  const uint32_t first = line_->draw(1).value();
  const uint32_t second = line_->draw(2).value();
  EXPECT_FALSE(line_->leave(first));
  EXPECT_EQ(line_->draw(3), first);
  EXPECT_TRUE(line_->is_first(second));
}

TEST_F(TicketLineTest, PassesOver) {
  const uint32_t first = line_->draw(1).value();
  const uint32_t second = line_->draw(2).value();
  const auto is_first = [](uint32_t client) { return client == 1; };
  EXPECT_EQ(line_->first(is_first)->ticket, second);
  EXPECT_FALSE(line_->first([](uint32_t) { return true; }));
  EXPECT_EQ(line_->grant(0, 1, is_first), 1U);
  EXPECT_TRUE(line_->take_granted(second));
  EXPECT_TRUE(line_->is_first(first));
}

TEST_F(TicketLineTest, WhoLeavesHasWhatWasGranted) {
  const uint32_t ticket = line_->draw(1).value();
  EXPECT_EQ(line_->grant(0, kSlots, {}), 1U);
  EXPECT_EQ(line_->leave(ticket), 0U);
  EXPECT_TRUE(memory_->slots()[0].word.load().is(SlotState::kClaimed, 1));
}

TEST_F(TicketLineTest, IsBounded) {
  for (uint32_t i = 0; i < kMostTickets; ++i) ASSERT_TRUE(line_->draw(1));
  EXPECT_FALSE(line_->draw(1));
}

TEST_F(TicketLineTest, RecoversWhatWasReservedAndNotTold) {
  const uint32_t told = line_->draw(1).value();
  EXPECT_EQ(line_->grant(0, 1, {}), 1U);
  ASSERT_TRUE(memory_->slots()[1].word.take(SlotState::kGranted, 1));
  line_->recover();
  EXPECT_EQ(memory_->slots()[1].word.load().state, SlotState::kFree);
  EXPECT_EQ(line_->take_granted(told), 0U);
}

TEST(PlaceInLine, GivesBackWhatItWasGranted) {
  const auto memory = std::move(StagingMemory::make_private({kSlot, 2 * kSlot}).value());
  ASSERT_EQ(memory->grow(2), 2U);
  const auto client = std::move(StagingClient::join(*memory).value());
  StagingServer server(*memory);
  {
    PlaceInLine place = client->place();
    EXPECT_TRUE(place.draw());
    (void)server.look();
    EXPECT_EQ(memory->slots()[0].word.load().state, SlotState::kGranted);
  }
  EXPECT_EQ(memory->slots()[0].word.load().state, SlotState::kFree);
  EXPECT_FALSE(TicketLine(*memory).anyone_waits());
}

// Clients ask, get slots, hand them over, give up and die, and servers die, at random, each also
// between any two of the changes of a word that an operation consists of. Beside it goes a queue:
// who is in it, and in which order they came.
class Histories {
 public:
  explicit Histories(unsigned seed) : random_(seed) {
    memory_ = std::move(StagingMemory::make_private({kSlot, kSlots * kSlot}).value());
    (void)memory_->grow(kSlots);
    server_ = std::make_unique<StagingServer>(*memory_);
    for (auto& client : clients_) client = join();
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      one_step();
      look_at_grants();
      look_at_slots();
    }
    for (auto& client : clients_) kill(client);
    server_->reap();
    (void)server_->look();
    EXPECT_TRUE(server_->is_idle());
    for (const TicketEntry& ticket : memory_->tickets()) {
      EXPECT_EQ(ticket.word.load().state, TicketState::kFree);
    }
  }
  uint64_t served() const { return served_; }

 private:
  static constexpr uint32_t kSlots = 3;
  static constexpr size_t kClients = 4;

  struct Asked {
    std::unique_ptr<PlaceInLine> place;
    uint32_t ticket = 0;
  };
  struct Client {
    std::unique_ptr<StagingClient> client;
    uint32_t index = 0;
    std::vector<Asked> asked;
    std::vector<uint32_t> held;
  };
  struct Waits {
    uint32_t client = 0;
    uint32_t ticket = 0;
  };

  size_t any(size_t below) { return random_() % below; }
  TicketEntry& entry(uint32_t ticket) { return memory_->tickets()[ticket]; }

  std::unique_ptr<Client> join() {
    auto made = std::make_unique<Client>();
    while (memory_->clients()[made->index].word.load().state != ClientState::kFree) ++made->index;
    made->client = std::move(StagingClient::join(*memory_).value());
    return made;
  }

  void one_step() {
    Client& client = *clients_[any(kClients)];
    switch (any(12)) {
      case 0:
      case 1:
      case 2:
        return ask(client);
      case 3:
      case 4:
        return come_back(client);
      case 5:
        return hand_over(client);
      case 6:
        return release();
      case 7:
        return give_up(client);
      case 8:
        return kill_within(clients_[any(kClients)]);
      case 9:
        return replace_server();
      case 10:
        (void)server_->look();
        filled_.clear();  // they belong to no stream
        return;
      default:
        server_->reap();
        reaped();
    }
  }

  void ask(Client& client) {
    auto place = std::make_unique<PlaceInLine>(client.client->place());
    if (const auto slot = client.client->claim(*place, 0ns); slot.ok()) {
      EXPECT_TRUE(queue_.empty()) << "it was not first";
      return got(client, slot.value());
    }
    std::set<uint32_t> before;
    for (uint32_t i = 0; i < kMostTickets; ++i) {
      if (entry(i).word.load().state == TicketState::kFree) before.insert(i);
    }
    ASSERT_TRUE(place->draw());
    const uint32_t ticket = *before.begin();
    ASSERT_TRUE(entry(ticket).word.load().is(TicketState::kWaiting, client.index));
    queue_.push_back({client.index, ticket});
    client.asked.push_back({std::move(place), ticket});
  }

  void come_back(Client& client) {
    if (client.asked.empty()) return;
    const auto asked = client.asked.begin() + static_cast<ptrdiff_t>(any(client.asked.size()));
    const bool was_granted = entry(asked->ticket).word.load().state == TicketState::kGranted;
    const auto slot = client.client->claim(*asked->place, 0ns);
    if (!slot.ok()) return;
    if (!was_granted) {
      ASSERT_FALSE(queue_.empty());
      EXPECT_EQ(queue_.front().ticket, asked->ticket) << "it was not first";
      queue_.pop_front();
    }
    got(client, slot.value());
    client.asked.erase(asked);
  }

  void got(Client& client, uint32_t slot) {
    client.held.push_back(slot);
    ++served_;
  }

  void hand_over(Client& client) {
    if (client.held.empty()) return;
    const uint32_t slot = client.held.back();
    client.held.pop_back();
    if (any(4) == 0) return client.client->give_back(slot);
    OwnedWord<SlotState>& word = memory_->slots()[slot].word;
    ASSERT_TRUE(word.change(word.load(), SlotState::kFilled, client.index));
    filled_.insert(slot);
  }

  void release() {
    if (filled_.empty()) return;
    const uint32_t slot = *filled_.begin();
    filled_.erase(slot);
    server_->release(slot);
  }

  void give_up(Client& client) {
    if (client.asked.empty()) return;
    std::erase_if(queue_,
                  [&](const Waits& waits) { return waits.ticket == client.asked.back().ticket; });
    client.asked.pop_back();
  }

  // After any of its changes.
  void kill_within(std::unique_ptr<Client>& client) {
    const uint32_t index = client->index;
    const auto free_slot = std::ranges::find_if(memory_->slots(), [](const SlotEntry& slot) {
      return slot.word.load().state == SlotState::kFree;
    });
    switch (any(4)) {
      case 0:  // within draw()
        for (TicketEntry& ticket : memory_->tickets()) {
          if (ticket.word.take(TicketState::kTaking, index)) break;
        }
        break;
      case 1:  // has taken a free slot, and has its ticket still
        if (free_slot != memory_->slots().end()) free_slot->word.take(SlotState::kClaimed, index);
        break;
      case 2:  // within take_granted()
        for (const Asked& asked : client->asked) {
          if (entry(asked.ticket).word.load().state != TicketState::kGranted) continue;
          OwnedWord<SlotState>& word = memory_->slots()[entry(asked.ticket).slot].word;
          word.change(word.load(), SlotState::kClaimed, index);
        }
        break;
      default:
        break;
    }
    kill(client);
    client = join();
  }

  void kill(std::unique_ptr<Client>& client) {
    OwnedWord<ClientState>& word = memory_->clients()[client->index].word;
    word.change(word.load(), ClientState::kJoined, 0);
    dead_.insert(client->index);
    buried_.push_back(std::move(client));
  }

  // It had reserved a slot, or not.
  void replace_server() {
    const auto turn = TicketLine(*memory_).first();
    if (turn) {
      for (SlotEntry& slot : memory_->slots()) {
        if (slot.word.take(SlotState::kGranted, turn->word.owner)) break;
      }
    }
    server_ = std::make_unique<StagingServer>(*memory_);
  }

  void reaped() {
    std::erase_if(queue_, [&](const Waits& waits) { return dead_.contains(waits.client); });
    for (const uint32_t index : dead_) {
      for (const SlotEntry& slot : memory_->slots()) {
        const auto word = slot.word.load();
        EXPECT_FALSE(word.state != SlotState::kFilled && word.state != SlotState::kFree &&
                     word.owner == index);
      }
    }
    dead_.clear();
    (void)server_->look();
    filled_.clear();
    look_at_grants();
    const bool any_free = std::ranges::any_of(memory_->slots(), [](const SlotEntry& slot) {
      return slot.word.load().state == SlotState::kFree;
    });
    EXPECT_FALSE(any_free && !queue_.empty()) << "a slot is free, and somebody waits";
  }

  // Granted are the first ones, those of dead clients aside.
  void look_at_grants() {
    bool may_be = true;
    std::erase_if(queue_, [&](const Waits& waits) {
      const Owned<TicketState> word = entry(waits.ticket).word.load();
      const bool is_granted = word.is(TicketState::kGranted, waits.client);
      EXPECT_TRUE(may_be || !is_granted) << "an earlier one was overtaken";
      if (!is_granted && !dead_.contains(waits.client)) may_be = false;
      return is_granted;
    });
  }

  // Nothing is lost, nothing is two clients'.
  void look_at_slots() {
    std::set<uint32_t> held(filled_);
    for (const auto& client : clients_) {
      for (const uint32_t slot : client->held) {
        EXPECT_TRUE(memory_->slots()[slot].word.load().is(SlotState::kClaimed, client->index));
        EXPECT_TRUE(held.insert(slot).second);
      }
      for (const Asked& asked : client->asked) {
        if (entry(asked.ticket).word.load().state != TicketState::kGranted) continue;
        const uint32_t slot = entry(asked.ticket).slot;
        EXPECT_TRUE(memory_->slots()[slot].word.load().is(SlotState::kGranted, client->index));
        EXPECT_TRUE(held.insert(slot).second);
      }
    }
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const Owned<SlotState> word = memory_->slots()[slot].word.load();
      const bool is_known = held.contains(slot) || dead_.contains(word.owner);
      EXPECT_TRUE(word.state == SlotState::kFree || is_known) << "slot " << slot << " is lost";
    }
  }

  std::mt19937 random_;
  std::unique_ptr<StagingMemory> memory_;
  std::vector<std::unique_ptr<Client>> buried_;  // destroyed when nothing is looked at any more
  std::unique_ptr<Client> clients_[kClients];
  std::unique_ptr<StagingServer> server_;
  std::deque<Waits> queue_;
  std::set<uint32_t> filled_;
  std::set<uint32_t> dead_;  // not reaped yet
  uint64_t served_ = 0;
};

TEST(TicketLine, RandomHistoriesAreThoseOfAQueue) {
  uint64_t served = 0;
  const unsigned histories = std::getenv("GPUSNAP_SOAK") != nullptr ? 2000 : 15;
  for (unsigned seed = 0; seed < histories && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Histories history(seed);
    history.run(150);
    served += history.served();
  }
  EXPECT_GT(served, 100U);
}

}  // namespace
}  // namespace gpusnap
