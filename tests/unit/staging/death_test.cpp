// Clients and servers are killed at random moments. A stream that was sealed is whole and is
// brought to its end; nothing is lost or kept for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/becomes.h"
#include "tests/unit/staging/slot_size.h"
#include "tiers/staging/client.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kSlots = 5;  // of a stream

// Shared by the processes of a test beside the staging area: how many streams were sealed and have
// come to their end, by their texts' numbers.
struct Score {
  std::atomic<uint32_t> opened{0};
  std::atomic<uint8_t> sealed[1 << 16];
  std::atomic<uint8_t> ended[1 << 16];
  std::atomic<uint64_t> served[8];  // slots that each client got
};

// Asks for slots and gives them back, or hands them over.
[[noreturn]] void ask_for_ever(const std::string& name, std::atomic<uint64_t>& served) {
  const auto memory = StagingMemory::attach(name);
  if (!memory.ok()) ::_exit(10);
  const auto client = StagingClient::join(*memory.value());
  if (!client.ok()) ::_exit(11);
  for (;;) {
    const auto stream = client.value()->open(StreamKind::kCheckpoint, "0");
    if (!stream.ok()) ::_exit(12);
    for (int i = 0; i < 4; ++i) {
      const auto slot = client.value()->claim(600s);
      if (!slot.ok()) ::_exit(13);
      ++served;
      if (i % 2 == 0) {
        client.value()->give_back(slot.value());
      } else {
        client.value()->hand_over(stream.value(), slot.value(), 1, {});
      }
    }
    client.value()->abandon(stream.value());
  }
}

[[noreturn]] void save_for_ever(const std::string& name, Score& score, unsigned seed) {
  std::mt19937 random(seed);
  const auto memory = StagingMemory::attach(name);
  if (!memory.ok()) ::_exit(10);
  for (;;) {
    const auto client = StagingClient::join(*memory.value());
    if (!client.ok()) ::_exit(11);
    for (int i = 0; i < 3; ++i) {
      const uint32_t number = score.opened++;
      if (number >= std::size(score.sealed)) ::_exit(0);
      const auto stream = client.value()->open(StreamKind::kCheckpoint, std::to_string(number));
      if (!stream.ok()) ::_exit(12);
      for (uint64_t n = 0; n < kSlots; ++n) {
        const auto slot = client.value()->claim(600s);
        if (!slot.ok()) ::_exit(13);
        std::ranges::fill(memory.value()->bytes(slot.value()), std::byte(number + n));
        client.value()->hand_over(stream.value(), slot.value(), kSlot - n, {});
      }
      if (random() % 4 == 0) {
        client.value()->abandon(stream.value());
        continue;
      }
      client.value()->seal(stream.value());
      score.sealed[number] = 1;  // after it: what is set here was sealed for certain
      if (random() % 2 == 0) continue;
      while (!client.value()->outcome(stream.value())) {
        client.value()->wait(client.value()->changes(), 1ms);
      }
      client.value()->close(stream.value());
    }
  }
}

// Keeps what has arrived, and releases a stream's slots when it is sealed; as a backend would that
// has written everything before it lets go of the first.
class Keeper {
 public:
  Keeper(StagingMemory& memory, Score& score) : server_(memory), score_(score) {}

  // False where a slot is not what was handed over.
  bool step() {
    const uint32_t seen = server_.changes();
    const auto news = server_.look();
    for (const auto& arrival : news.arrived) streams_[arrival.stream].push_back(arrival);
    for (const uint32_t stream : news.sealed) sealed_.insert(stream);
    for (const uint32_t stream : news.abandoned) finish(stream);
    for (const uint32_t stream : std::set(sealed_)) {
      if (streams_[stream].size() < kSlots) continue;
      const int number = std::atoi(std::string(server_.text(stream)).c_str());
      for (const auto& arrival : streams_[stream]) {
        const auto bytes = server_.bytes(arrival.slot);
        const auto expected = std::byte(static_cast<uint64_t>(number) + arrival.sequence);
        if (bytes.size() != kSlot - arrival.sequence ||
            !std::ranges::all_of(bytes, [&](std::byte byte) { return byte == expected; })) {
          return false;
        }
      }
      score_.ended[number]++;
      finish(stream);
    }
    server_.reap();
    if (news.arrived.empty()) server_.wait(seen, 1ms);
    return true;
  }
  bool is_idle() const { return server_.is_idle(); }

 private:
  // A server that dies in between has released some of the slots: so it ends the stream first, and
  // the slots are found to belong to nobody.
  void finish(uint32_t stream) {
    server_.end(stream, {});
    for (const auto& arrival : streams_[stream]) server_.release(arrival.slot);
    streams_.erase(stream);
    sealed_.erase(stream);
  }

  StagingServer server_;
  Score& score_;
  std::map<uint32_t, std::vector<StagingServer::Arrival>> streams_;
  std::set<uint32_t> sealed_;
};

// Lets go of whatever arrives.
[[noreturn]] void release_for_ever(const std::string& name) {
  for (;;) {
    const auto memory = StagingMemory::serve(name, {kSlot, 2 * kSlot});
    if (!memory.ok()) {
      ::usleep(100);
      continue;
    }
    memory.value()->grow(2);
    StagingServer server(*memory.value());
    for (;;) {
      const uint32_t seen = server.changes();
      const auto news = server.look();
      for (const auto& arrival : news.arrived) server.release(arrival.slot);
      for (const uint32_t stream : news.abandoned) server.end(stream, {});
      server.reap();
      server.wait(seen, 1ms);
    }
  }
}

[[noreturn]] void serve_for_ever(const std::string& name, Score& score) {
  for (;;) {
    const auto memory = StagingMemory::serve(name, {kSlot, 8 * kSlot});
    if (!memory.ok()) {
      ::usleep(100);  // the last one's lock goes when the system has cleaned up after it
      continue;
    }
    memory.value()->grow(8);
    Keeper keeper(*memory.value(), score);
    while (keeper.step()) {
    }
    ::_exit(20);
  }
}

class StagingDeath : public ::testing::Test {
 protected:
  void SetUp() override {
    name_ = StagingMemory::name_for("death" + std::to_string(::getpid()));
    void* shared =
        ::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    score_ = new (shared) Score;
  }
  void TearDown() override {
    ::shm_unlink(name_.c_str());
    ::munmap(score_, sizeof(Score));
  }

  template <class Body>
  pid_t start(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(0);
    }
    return child;
  }
  pid_t start_client() {
    const unsigned seed = seed_++;
    return start([&] { save_for_ever(name_, *score_, seed); });
  }
  pid_t start_server() {
    return start([&] { serve_for_ever(name_, *score_); });
  }
  void kill(pid_t child) {
    int status = 0;
    const pid_t early = ::waitpid(child, &status, WNOHANG);
    ASSERT_EQ(early, 0) << "a process ended by itself: " << WEXITSTATUS(status);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }

  // With everybody else dead: what is left is brought to its end.
  void finish() {
    const auto memory = StagingMemory::serve(name_, {kSlot, 8 * kSlot});
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    Keeper keeper(*memory.value(), *score_);
    for (int i = 0; i < 10'000 && !keeper.is_idle(); ++i) ASSERT_TRUE(keeper.step());
    EXPECT_TRUE(keeper.is_idle());
    const uint32_t opened = std::min<uint32_t>(score_->opened, std::size(score_->sealed));
    int whole = 0;
    for (uint32_t number = 0; number < opened; ++number) {
      whole += score_->ended[number] > 0;
      EXPECT_FALSE(score_->sealed[number] != 0 && score_->ended[number] == 0) << number;
    }
    EXPECT_GT(whole, 0);
  }

  std::string name_;
  Score* score_ = nullptr;
  unsigned seed_ = 1;
};

// Between a stream's end and the score of it a server may be killed; so it may be counted twice,
// never not at all.
TEST_F(StagingDeath, OfClientsAndServersLosesNothingThatWasSealed) {
  std::mt19937 random(7);
  pid_t server = start_server();
  while (!StagingMemory::attach(name_).ok()) ::usleep(100);
  std::vector<pid_t> clients{start_client(), start_client(), start_client()};
  const int rounds = std::getenv("GPUSNAP_SOAK") != nullptr ? 2000 : 120;
  for (int round = 0; round < rounds; ++round) {
    ::usleep(static_cast<useconds_t>(random() % 8000));
    const size_t who = random() % (clients.size() + 1);
    pid_t& victim = who < clients.size() ? clients[who] : server;
    kill(victim);
    if (HasFatalFailure()) break;
    victim = who < clients.size() ? start_client() : start_server();
  }
  for (const pid_t client : clients) kill(client);
  kill(server);
  finish();
}

// Two slots for four clients, so that most of them wait. None of the dead, wherever it stood in the
// line, keeps those that live from going on.
TEST_F(StagingDeath, OfThoseWhoWaitStopsNobody) {
  std::mt19937 random(11);
  constexpr size_t kClients = 4;
  const auto start_releasing = [&] { return start([&] { release_for_ever(name_); }); };
  const auto start_asking = [&](size_t who) {
    return start([&] { ask_for_ever(name_, score_->served[who]); });
  };
  pid_t server = start_releasing();
  while (!StagingMemory::attach(name_).ok()) ::usleep(100);
  pid_t clients[kClients];
  for (size_t who = 0; who < kClients; ++who) clients[who] = start_asking(who);
  const int rounds = std::getenv("GPUSNAP_SOAK") != nullptr ? 1000 : 40;
  for (int round = 0; round < rounds; ++round) {
    const size_t who = random() % (kClients + 1);
    pid_t& victim = who < kClients ? clients[who] : server;
    kill(victim);
    if (HasFatalFailure()) break;
    victim = who < kClients ? start_asking(who) : start_releasing();
    for (std::atomic<uint64_t>& served : std::span(score_->served).first(kClients)) {
      const uint64_t before = served;
      ASSERT_TRUE(becomes([&] { return served > before + 3; })) << "round " << round;
    }
  }
  for (const pid_t client : clients) kill(client);
  kill(server);
}

}  // namespace
}  // namespace gpusnap
