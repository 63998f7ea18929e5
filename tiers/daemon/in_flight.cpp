// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/in_flight.h"

#include <algorithm>
#include <cstring>

#include "tiers/staging/process_identity.h"
#include "tiers/status.h"

namespace gpusnap {

namespace {

bool is_there(StreamState state) {
  return state == StreamState::kOpen || is_sealed(state);
}

bool has_program(StagingMemory& memory, const Owned<StreamState>& stream) {
  if (stream.owner >= kMostClients) return false;
  const ClientEntry& client = memory.clients()[stream.owner];
  const Owned<ClientState> program = client.word.load();
  return program.state == ClientState::kJoined && is_running({program.owner, client.started});
}

// The server seals the journal of a program that has ended, a moment after its end.
bool may_grow(StagingMemory& memory, const Owned<StreamState>& journal) {
  return journal.state == StreamState::kOpen && has_program(memory, journal);
}

// Returns a copy, since other processes may change the entry meanwhile.
std::string copy_of(const char* text, uint32_t bytes, size_t most) {
  return {text, std::min<size_t>(bytes, most)};
}

}  // namespace

InFlight look_at(StagingMemory& memory) {
  InFlight found;
  const auto streams = memory.streams();
  for (uint32_t i = 0; i < streams.size(); ++i) {
    const StreamEntry& entry = streams[i];
    const Owned<StreamState> word = entry.word.load();
    if (!is_there(word.state)) continue;
    const StreamKind kind = entry.kind;
    const std::string text = copy_of(entry.text, entry.text_bytes, kStreamText);
    if (entry.word.load().life != word.life) continue;
    const StreamLife stream{i, word.life};
    const bool sealed = is_sealed(word.state);
    if (kind == StreamKind::kCheckpoint) {
      auto parsed = parse_checkpoint(text);
      const bool held = sealed && entry.held.load(std::memory_order_acquire) == word.life;
      const bool kept = sealed && keeping_of(entry, word.life) == Keeping::kStays;
      if (parsed.ok()) {
        const bool is_running = kept && has_program(memory, word);
        found.parts.push_back({stream, std::move(parsed.value()), sealed, held, kept, is_running});
      }
    } else {
      auto parsed = parse_journal(text);
      const bool grows = may_grow(memory, word);
      if (parsed.ok()) found.journals.push_back({stream, std::move(parsed.value()), grows});
    }
  }
  return found;
}

Fate fate_of(StagingMemory& memory, const StreamLife& stream, std::string& why) {
  const StreamEntry& entry = memory.streams()[stream.stream];
  const Owned<StreamState> word = entry.word.load();
  if (word.life != stream.life) return Fate::kGone;
  if (is_there(word.state)) return Fate::kPending;
  if (word.state != StreamState::kEnded) return Fate::kGone;
  const auto code = static_cast<Code>(entry.outcome);
  const char* const end = std::find(entry.message, entry.message + kOutcomeText, '\0');
  const std::string message(static_cast<const char*>(entry.message), end);
  if (entry.word.load() != word) return Fate::kGone;
  if (code == Code::kOk) return Fate::kDurable;
  why = message;
  return Fate::kFailed;
}

}  // namespace gpusnap
