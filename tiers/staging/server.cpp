// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/server.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include "tiers/staging/process_identity.h"

namespace gpusnap {

StagingServer::StagingServer(StagingMemory& memory)
    : memory_(memory), line_(memory), streams_(kMostStreams), slots_(memory.slots().size()) {
  line_.recover();
  const ProcessIdentity self = own_identity();
  PoolHeader& header = memory_.header();
  header.server_started.store(self.started, std::memory_order_relaxed);
  header.server.store(self.pid, std::memory_order_release);
}

// Looks at streams before slots, so that all slots of a stream that was found sealed are found,
// too.
StagingServer::News StagingServer::look() {
  News news;
  const Streams streams = look_at_streams(news);
  for (uint32_t slot = 0; slot < memory_.backed(); ++slot) {
    // Nobody but this thread touches a slot that is filled and has not been reported.
    const SlotEntry& entry = memory_.slots()[slot];
    const Owned<SlotState> now = entry.word.load();
    if (now.state != SlotState::kFilled || slots_[slot] == now.life) continue;
    const Owned<StreamState>& stream = streams[entry.stream % kMostStreams];
    const auto later = static_cast<int32_t>(entry.stream_life - stream.life);
    // The slot's stream was opened after the look at streams: the slot waits for the next look.
    if (later > 0 || stream.state == StreamState::kOpening) continue;
    slots_[slot] = now.life;
    const bool wanted = stream.state == StreamState::kOpen || is_sealed(stream.state);
    if (later == 0 && wanted) {
      news.arrived.push_back({slot, entry.stream, entry.sequence});
    } else {
      release(slot);
    }
  }
  std::sort(news.arrived.begin(), news.arrived.end(), [](const Arrival& a, const Arrival& b) {
    return std::tie(a.stream, a.sequence) < std::tie(b.stream, b.sequence);
  });
  // Slots may have become free without a release.
  (void)grant(0, memory_.backed());
  return news;
}

StagingServer::Streams StagingServer::look_at_streams(News& news) {
  Streams streams;
  streams.reserve(kMostStreams);
  for (const StreamEntry& entry : memory_.streams()) {
    const auto index = static_cast<uint32_t>(streams.size());
    const Owned<StreamState> now = entry.word.load();
    streams.push_back(now);
    const bool sealed = is_sealed(now.state);
    if (!sealed && now.state != StreamState::kOpen && now.state != StreamState::kAbandoned)
      continue;
    Seen& seen = streams_[index];
    const auto is_new = [&](uint32_t& life) { return std::exchange(life, now.life) != now.life; };
    if (is_new(seen.opened)) news.opened.push_back(index);
    if (sealed && is_new(seen.sealed)) news.sealed.push_back(index);
    if (now.state == StreamState::kAbandoned && is_new(seen.abandoned)) {
      news.abandoned.push_back(index);
    }
  }
  return streams;
}

void StagingServer::reap() {
  const std::span<ClientEntry> clients = memory_.clients();
  for (uint32_t index = 0; index < clients.size(); ++index) {
    ClientEntry& entry = clients[index];
    const Owned<ClientState> word = entry.word.load();
    if (word.state == ClientState::kFree) continue;
    if (!has_gone(index)) continue;
    reap_slots(index);
    reap_streams(index);
    entry.word.free(word);
  }
}

bool StagingServer::has_running_client(uint32_t stream) const {
  const Owned<StreamState> word = memory_.streams()[stream].word.load();
  return word.state != StreamState::kFree && word.owner < kMostClients && !has_gone(word.owner);
}

bool StagingServer::has_gone(uint32_t client) const {
  const ClientEntry& entry = memory_.clients()[client];
  const Owned<ClientState> word = entry.word.load();
  // A joining client has not set its start time yet.
  const uint64_t started = word.state == ClientState::kJoined ? entry.started : 0;
  return !is_running({word.owner, started});
}

uint32_t StagingServer::threads_waiting_for_devices() const {
  const auto own = static_cast<uint32_t>(::getpid());
  constexpr size_t kMostThreads = 64;
  std::vector<uint32_t> clients;
  for (const ClientEntry& entry : memory_.clients()) {
    const Owned<ClientState> word = entry.word.load();
    if (word.state == ClientState::kJoined && word.owner != own) clients.push_back(word.owner);
  }
  uint32_t waiting = 0;
  for (const uint32_t client : clients) {
    waiting += gpusnap::threads_waiting_for_devices(
        client, std::max<size_t>(kMostThreads / clients.size(), 1));
  }
  return waiting;
}

// Frees the client's slots, except for those that it had handed over, which belong to its streams.
// Its tickets are freed first, so that they are granted nothing.
void StagingServer::reap_slots(uint32_t client) {
  {
    const MutexLock lock(grant_mutex_);
    line_.reap(client);
  }
  for (SlotEntry& slot : memory_.slots()) {
    const Owned<SlotState> now = slot.word.load();
    const bool has_it = now.is(SlotState::kClaimed, client) || now.is(SlotState::kGranted, client);
    if (has_it) slot.word.free(now);
  }
  (void)grant(0, memory_.backed());
  memory_.header().freed.ring();
}

bool StagingServer::grant(uint32_t begin, uint32_t end) {
  const MutexLock lock(grant_mutex_);
  return line_.grant(begin, end, [this](uint32_t client) { return has_gone(client); }) > 0;
}

void StagingServer::reap_streams(uint32_t client) {
  for (StreamEntry& entry : memory_.streams()) {
    const Owned<StreamState> word = entry.word.load();
    if (word.state == StreamState::kFree || word.owner != client) continue;
    switch (word.state) {
      case StreamState::kOpening:
      case StreamState::kEnded:
        entry.word.free(word);
        break;
      case StreamState::kOpen:
        // An incomplete journal is valid up to its end; an incomplete part is not.
        entry.word.change(
            word,
            entry.kind == StreamKind::kJournal ? StreamState::kSealed : StreamState::kAbandoned,
            kNoClient);
        break;
      default:
        entry.word.change(word, word.state, kNoClient);
    }
  }
}

std::string_view StagingServer::text(uint32_t stream) const {
  const StreamEntry& entry = memory_.streams()[stream];
  return {entry.text, std::min<size_t>(entry.text_bytes, kStreamText)};
}

std::span<const std::byte> StagingServer::bytes(uint32_t slot) const {
  const std::span<std::byte> all = memory_.bytes(slot);
  return all.first(std::min<uint64_t>(memory_.slots()[slot].used, all.size()));
}

std::span<const Piece> StagingServer::pieces(uint32_t slot) const {
  const std::span<Piece> all = memory_.pieces(slot);
  return all.first(std::min<size_t>(memory_.slots()[slot].pieces, all.size()));
}

bool StagingServer::is_asked_for_file(uint32_t stream) const {
  const StreamEntry& entry = memory_.streams()[stream];
  return entry.asked.load(std::memory_order_acquire) !=
         entry.answered.load(std::memory_order_relaxed);
}

// Answers a path that is too long with no file.
void StagingServer::answer(uint32_t stream, uint32_t number, const std::string& path,
                           uint64_t bytes) {
  StreamEntry& entry = memory_.streams()[stream];
  const bool fits = path.size() < kDirectPath;
  entry.direct_number = number;
  entry.direct_bytes = fits ? bytes : 0;
  const size_t length = fits ? path.size() : 0;
  std::memcpy(entry.direct_path, path.data(), length);
  entry.direct_path[length] = 0;
  entry.answered.store(entry.asked.load(std::memory_order_relaxed), std::memory_order_release);
  memory_.header().freed.ring();
}

void StagingServer::release(uint32_t slot) {
  OwnedWord<SlotState>& word = memory_.slots()[slot].word;
  word.free(word.load());
  if (!grant(slot, slot + 1)) memory_.header().freed.ring();
}

void StagingServer::progress(uint32_t stream, uint64_t durable) {
  memory_.streams()[stream].durable.store(durable, std::memory_order_release);
  memory_.header().freed.ring();
}

void StagingServer::held(uint32_t stream, uint32_t life) {
  memory_.streams()[stream].held.store(life, std::memory_order_release);
}

void StagingServer::set_spills(uint32_t stream, uint32_t life, uint32_t count) {
  memory_.streams()[stream].spills.store(uint64_t{life} << 32 | count, std::memory_order_release);
}

uint32_t StagingServer::spills(uint32_t stream, uint32_t life) const {
  const uint64_t said = memory_.streams()[stream].spills.load(std::memory_order_acquire);
  return said >> 32 == life ? static_cast<uint32_t>(said) : 0;
}

void StagingServer::keep(uint32_t stream, uint32_t life, Keeping keeping) {
  memory_.streams()[stream].kept.store(uint64_t{life} << 32 | static_cast<uint8_t>(keeping),
                                       std::memory_order_release);
  memory_.header().freed.ring();
}

// The client may abandon it at the same moment, or may have gone.
void StagingServer::end(uint32_t stream, const Status& outcome) {
  StreamEntry& entry = memory_.streams()[stream];
  entry.outcome = static_cast<uint32_t>(outcome.code());
  const size_t bytes = std::min(outcome.message().size(), kOutcomeText - 1);
  std::memcpy(entry.message, outcome.message().data(), bytes);
  entry.message[bytes] = 0;
  for (;;) {
    const Owned<StreamState> word = entry.word.load();
    const bool nobody_asks = word.state == StreamState::kAbandoned ||
                             word.state == StreamState::kKept || word.owner == kNoClient;
    if (nobody_asks ? entry.word.free(word)
                    : entry.word.change(word, StreamState::kEnded, word.owner)) {
      break;
    }
  }
  memory_.header().freed.ring();
}

uint32_t StagingServer::free_slots() const {
  const std::span<SlotEntry> slots = memory_.slots().first(memory_.backed());
  return static_cast<uint32_t>(std::ranges::count_if(
      slots, [](const SlotEntry& slot) { return slot.word.load().state == SlotState::kFree; }));
}

bool StagingServer::is_idle() const {
  const auto is_free = [](const auto& entry) {
    return static_cast<int>(entry.word.load().state) == 0;
  };
  return std::ranges::all_of(memory_.clients(), is_free) &&
         std::ranges::all_of(memory_.streams(), is_free) &&
         std::ranges::all_of(memory_.slots(), is_free);
}

bool StagingServer::close() {
  PoolHeader& header = memory_.header();
  header.closed.store(1, std::memory_order_seq_cst);
  if (is_idle()) {
    memory_.remove();
    header.server.store(0, std::memory_order_release);
    return true;
  }
  header.closed.store(0, std::memory_order_seq_cst);
  return false;
}

void StagingServer::wait(uint32_t seen, std::chrono::nanoseconds longest) const {
  memory_.header().filled.wait(seen, longest.count());
}

}  // namespace gpusnap
