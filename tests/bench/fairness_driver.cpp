// SPDX-License-Identifier: Apache-2.0
//
// Client processes that race for fewer slots than there are of them, through the real staging area.
// This process serves it: it takes a while for each slot, as a store does, and looks at the line
// between its steps.
//
//   fairness_driver CLIENTS SLOTS ROUNDS STORE_US     prints one line of JSON
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiers/staging/client.h"
#include "tiers/staging/server.h"

namespace {

using namespace gpusnap;

constexpr uint64_t kSlotBytes = 64 << 10;
constexpr uint32_t kMostRanks = 64;

// Counts that the processes share.
struct Board {
  std::atomic<uint32_t> ready{0};
  std::atomic<bool> go{false};
  std::atomic<double> seconds[kMostRanks];  // of each rank's local phase
  std::atomic<double> longest[kMostRanks];  // of its waits
};

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

template <class T>
T get(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "fairness_driver: %s\n", result.status().message().c_str());
    ::_exit(2);
  }
  return std::move(result.value());
}

// One rank: asks for a slot, fills it and hands it over, as often as there are rounds.
void save(const std::string& name, Board& board, uint32_t rank, int rounds) {
  const auto memory = get(StagingMemory::attach(name));
  const auto client = get(StagingClient::join(*memory));
  const uint32_t stream = get(client->open(StreamKind::kCheckpoint, std::to_string(rank)));
  ++board.ready;
  while (!board.go) ::usleep(100);
  const double began = now();
  double longest = 0;
  for (int round = 0; round < rounds; ++round) {
    const double asked = now();
    const uint32_t slot = get(client->claim(std::chrono::minutes(5)));
    longest = std::max(longest, now() - asked);
    std::ranges::fill(memory->bytes(slot), std::byte(round));
    client->hand_over(stream, slot, kSlotBytes, {});
  }
  board.seconds[rank] = now() - began;
  board.longest[rank] = longest;
  client->abandon(stream);
}

// The tickets that wait, highest number first: one that was served while they were looked at, and
// after another one, is seen before that one.
struct Waiting {
  uint64_t number = 0;
  uint32_t ticket = 0;
  uint32_t life = 0;
};

std::vector<Waiting> waiting(StagingMemory& memory) {
  std::vector<Waiting> found;
  for (uint32_t index = 0; index < kMostTickets; ++index) {
    const TicketEntry& entry = memory.tickets()[index];
    const auto word = entry.word.load();
    const uint64_t number = entry.number;
    if (word.state != TicketState::kWaiting || entry.word.load() != word) continue;
    found.push_back({number, index, word.life});
  }
  std::ranges::sort(found, std::greater(), &Waiting::number);
  return found;
}

// How many of those that waited before wait still, although a later one does not any more.
uint64_t overtaken(StagingMemory& memory, const std::vector<Waiting>& before) {
  bool later_served = false;
  uint64_t overtaken = 0;
  for (const Waiting& each : before) {
    const auto word = memory.tickets()[each.ticket].word.load();
    const bool waits = word.state == TicketState::kWaiting && word.life == each.life;
    overtaken += waits && later_served;
    later_served |= !waits;
  }
  return overtaken;
}

struct Seen {
  uint64_t looks = 0;  // at a line of two or more
  uint64_t overtaken = 0;
};

Seen serve(StagingMemory& memory, uint32_t clients, std::chrono::microseconds store) {
  StagingServer server(memory);
  Seen seen;
  for (uint32_t ended = 0; ended < clients;) {
    const uint32_t rings = server.changes();
    const auto news = server.look();
    for (const auto& arrival : news.arrived) {
      std::vector<Waiting> before = waiting(memory);
      const auto until = std::chrono::steady_clock::now() + store;
      while (std::chrono::steady_clock::now() < until) ::usleep(50);
      server.release(arrival.slot);
      seen.looks += before.size() > 1;
      seen.overtaken += overtaken(memory, before);
    }
    for (const uint32_t stream : news.abandoned) {
      server.end(stream, {});
      ++ended;
    }
    if (news.arrived.empty()) server.wait(rings, std::chrono::milliseconds(5));
  }
  return seen;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: fairness_driver CLIENTS SLOTS ROUNDS STORE_US\n");
    return 2;
  }
  const auto clients = static_cast<uint32_t>(std::atoi(arguments[1]));
  const auto slots = static_cast<uint32_t>(std::atoi(arguments[2]));
  const int rounds = std::atoi(arguments[3]);
  if (clients == 0 || clients > kMostRanks || slots < 2 || rounds <= 0) return 2;
  void* shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto& board = *new (shared) Board;
  const std::string name = StagingMemory::name_for("fairness" + std::to_string(::getpid()));
  const auto memory = get(StagingMemory::serve(name, {kSlotBytes, slots * kSlotBytes}));
  if (memory->grow(slots) != slots) return 2;
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < clients; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      save(name, board, rank, rounds);
      ::_exit(0);
    }
    children.push_back(child);
  }
  while (board.ready < clients) ::usleep(1000);
  board.go = true;
  const Seen seen = serve(*memory, clients, std::chrono::microseconds(std::atoi(arguments[4])));
  bool all = true;
  for (const pid_t child : children) {
    int status = 0;
    all = ::waitpid(child, &status, 0) == child && status == 0 && all;
  }
  memory->remove();
  if (!all) return 2;
  std::printf("{\"looks\": %llu, \"overtaken\": %llu, \"seconds\": [",
              static_cast<unsigned long long>(seen.looks),
              static_cast<unsigned long long>(seen.overtaken));
  for (uint32_t rank = 0; rank < clients; ++rank) {
    std::printf("%s%.6f", rank == 0 ? "" : ", ", board.seconds[rank].load());
  }
  std::printf("], \"longest_wait\": [");
  for (uint32_t rank = 0; rank < clients; ++rank) {
    std::printf("%s%.6f", rank == 0 ? "" : ", ", board.longest[rank].load());
  }
  std::printf("]}\n");
  return 0;
}
