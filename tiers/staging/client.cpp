// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/client.h"

#include <algorithm>
#include <cstring>

#include "tiers/no_throw.h"
#include "tiers/staging/process_identity.h"

namespace gpusnap {

namespace {

template <size_t kMost>
uint32_t copy_text(char (&to)[kMost], const std::string& text) {
  const size_t bytes = std::min(text.size(), kMost);
  std::memcpy(to, text.data(), bytes);
  return static_cast<uint32_t>(bytes);
}

}  // namespace

Result<std::unique_ptr<StagingClient>> StagingClient::join(StagingMemory& memory) {
  const ProcessIdentity self = own_identity();
  const std::span<ClientEntry> clients = memory.clients();
  for (uint32_t index = 0; index < clients.size(); ++index) {
    ClientEntry& entry = clients[index];
    if (!entry.word.take(ClientState::kJoining, self.pid)) continue;
    entry.started = self.started;
    entry.word.change(entry.word.load(), ClientState::kJoined, self.pid);
    // The server closes the area and then looks for clients. The client joins and then looks
    // whether the area is closed. One of the two therefore sees the other.
    if (memory.header().closed.load(std::memory_order_seq_cst) != 0) {
      entry.word.free(entry.word.load());
      return Status(Code::kNotFound, "the staging area has just been closed");
    }
    memory.header().filled.ring();
    return no_throw("join the staging area", [&]() -> Result<std::unique_ptr<StagingClient>> {
      return std::unique_ptr<StagingClient>(new StagingClient(memory, index));
    });
  }
  return Status(Code::kBusy, "too many processes use the staging area of this node");
}

std::vector<pid_t> StagingClient::others() const {
  std::vector<pid_t> found;
  const std::span<ClientEntry> clients = memory_.clients();
  for (uint32_t index = 0; index < clients.size(); ++index) {
    const auto entry = clients[index].word.load();
    if (index == index_ || entry.state != ClientState::kJoined || entry.owner == 0) continue;
    found.push_back(static_cast<pid_t>(entry.owner));
  }
  return found;
}

StagingClient::~StagingClient() {
  // The server takes back all entries when it finds that the client has gone.
  OwnedWord<ClientState>& word = memory_.clients()[index_].word;
  word.change(word.load(), ClientState::kJoined, 0);
  memory_.header().filled.ring();
}

Result<uint32_t> StagingClient::claim(std::chrono::nanoseconds longest, uint32_t preferred) {
  PlaceInLine place = this->place();
  return claim(place, longest, preferred);
}

Result<uint32_t> StagingClient::claim(PlaceInLine& place, std::chrono::nanoseconds longest,
                                      uint32_t preferred) {
  using Steady = std::chrono::steady_clock;
  const auto until = Steady::now() + longest;
  for (;;) {
    const uint32_t seen = place.bell().rings();
    if (const auto slot = try_claim(place, preferred)) return *slot;
    const auto left = until - Steady::now();
    if (left <= std::chrono::nanoseconds(0)) break;
    // Looks once more with its ticket: a slot may have come free before there was one.
    if (!place.has_ticket() && place.draw()) continue;
    place.bell().wait(seen, std::chrono::nanoseconds(left).count());
  }
  return Status(Code::kBusy, "no staging slot came free");
}

std::optional<uint32_t> StagingClient::try_claim(PlaceInLine& place, uint32_t preferred) {
  if (const auto granted = place.take_granted()) return granted;
  if (!place.may_take()) return std::nullopt;
  const uint32_t backed = memory_.backed();
  preferred = std::min(preferred, backed);
  uint32_t slot = 0;
  if (!claim_of(0, preferred, slot) && !claim_of(preferred, backed, slot)) return std::nullopt;
  // A slot that was granted meanwhile goes to the next client.
  place.leave();
  return slot;
}

bool StagingClient::claim_of(uint32_t begin, uint32_t end, uint32_t& slot) {
  if (begin >= end) return false;
  const std::span<SlotEntry> slots = memory_.slots();
  const uint32_t count = end - begin;
  const uint32_t start = hint_.load(std::memory_order_relaxed) % count;
  for (uint32_t step = 0; step < count; ++step) {
    slot = begin + (start + step) % count;
    if (!slots[slot].word.take(SlotState::kClaimed, index_)) continue;
    hint_.store(slot + 1 - begin, std::memory_order_relaxed);
    return true;
  }
  return false;
}

Result<uint32_t> StagingClient::open(StreamKind kind, const std::string& text) {
  if (text.size() > kStreamText) return Status(Code::kInvalid, "too long for the backend: paths");
  const std::span<StreamEntry> streams = memory_.streams();
  for (uint32_t index = 0; index < streams.size(); ++index) {
    StreamEntry& entry = streams[index];
    if (!entry.word.take(StreamState::kOpening, index_)) continue;
    entry.kind = kind;
    entry.slots = 0;
    entry.durable.store(0, std::memory_order_relaxed);
    entry.asked.store(0, std::memory_order_relaxed);
    entry.answered.store(0, std::memory_order_relaxed);
    entry.text_bytes = copy_text(entry.text, text);
    entry.word.change(entry.word.load(), StreamState::kOpen, index_);
    memory_.header().filled.ring();
    return index;
  }
  return Status(Code::kBusy, "too many checkpoints are on their way on this node");
}

void StagingClient::hand_over(uint32_t stream, uint32_t slot, uint64_t used,
                              std::span<const Piece> pieces, SlotContent content) {
  StreamEntry& target = memory_.streams()[stream];
  SlotEntry& entry = memory_.slots()[slot];
  entry.stream = stream;
  entry.stream_life = target.word.load().life;
  entry.sequence = target.slots;
  entry.used = used;
  entry.pieces = static_cast<uint32_t>(pieces.size());
  entry.direct = content == SlotContent::kDirectChunk ? 1 : 0;
  std::copy(pieces.begin(), pieces.end(), memory_.pieces(slot).begin());
  entry.word.change(entry.word.load(), SlotState::kFilled, index_);
  ++target.slots;  // last, after the slot is filled
  memory_.header().filled.ring();
}

bool StagingClient::is_filled(uint32_t slot, uint32_t life) const {
  const Owned<SlotState> now = memory_.slots()[slot].word.load();
  return now.state == SlotState::kFilled && now.life == life;
}

uint32_t StagingClient::slot_life(uint32_t slot) const {
  return memory_.slots()[slot].word.load().life;
}

void StagingClient::ask_for_file(uint32_t stream) {
  memory_.streams()[stream].asked.fetch_add(1, std::memory_order_release);
  memory_.header().filled.ring();
}

std::optional<StagingClient::DirectFile> StagingClient::file_answer(uint32_t stream) const {
  const StreamEntry& entry = memory_.streams()[stream];
  const uint32_t answered = entry.answered.load(std::memory_order_acquire);
  if (answered != entry.asked.load(std::memory_order_relaxed)) return std::nullopt;
  const size_t length = strnlen(entry.direct_path, kDirectPath);
  return DirectFile{entry.direct_number, entry.direct_bytes, {entry.direct_path, length}};
}

// The server may end it at the same moment.
void StagingClient::seal(uint32_t stream) {
  OwnedWord<StreamState>& word = memory_.streams()[stream].word;
  const Owned<StreamState> now = word.load();
  if (now.state == StreamState::kOpen) word.change(now, StreamState::kSealed, index_);
  memory_.header().filled.ring();
}

void StagingClient::abandon(uint32_t stream) {
  OwnedWord<StreamState>& word = memory_.streams()[stream].word;
  const Owned<StreamState> now = word.load();
  if (now.state == StreamState::kEnded || !word.change(now, StreamState::kAbandoned, index_)) {
    close(stream);
  }
  memory_.header().filled.ring();
}

std::optional<Status> StagingClient::outcome(uint32_t stream) const {
  const StreamEntry& entry = memory_.streams()[stream];
  if (entry.word.load().state != StreamState::kEnded) return std::nullopt;
  const Code code = static_cast<Code>(entry.outcome);
  return code == Code::kOk ? Status() : Status(code, entry.message);
}

bool StagingClient::is_kept(uint32_t stream) const {
  const StreamEntry& entry = memory_.streams()[stream];
  return was_whole(keeping_of(entry, entry.word.load().life));
}

// The server may end it at the same moment.
void StagingClient::leave(uint32_t stream) {
  OwnedWord<StreamState>& word = memory_.streams()[stream].word;
  const Owned<StreamState> now = word.load();
  if (!now.is(StreamState::kSealed, index_) || !word.change(now, StreamState::kKept, index_)) {
    close(stream);
  }
  memory_.header().filled.ring();
}

uint64_t StagingClient::durable(uint32_t stream) const {
  return memory_.streams()[stream].durable.load(std::memory_order_acquire);
}

uint32_t StagingClient::life(uint32_t stream) const {
  return memory_.streams()[stream].word.load().life;
}

void StagingClient::close(uint32_t stream) {
  OwnedWord<StreamState>& word = memory_.streams()[stream].word;
  const Owned<StreamState> now = word.load();
  if (now.is(StreamState::kEnded, index_)) word.free(now);
}

uint32_t StagingClient::changes() const {
  return memory_.header().freed.rings();
}

void StagingClient::wait(uint32_t seen, std::chrono::nanoseconds longest) const {
  memory_.header().freed.wait(seen, longest.count());
}

}  // namespace gpusnap
