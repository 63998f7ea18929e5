// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/keeper.h"

#include <algorithm>
#include <span>

#include "tiers/backend/kept_slot.h"
#include "tiers/manifest.h"

namespace gpusnap {

std::string Keeper::Part::name() const {
  return text.job + "@" + std::to_string(text.epoch) + " of rank " + std::to_string(text.rank);
}

void Keeper::open(uint32_t stream, const std::string& job, const CheckpointText& text) {
  Part part;
  part.life = server_.life(stream);
  part.text = text;
  parts_.insert_or_assign(stream, std::move(part));
  kept_.add(stream, job, text.rank, text.epoch);
}

Keeper::Part* Keeper::find(uint32_t stream, uint32_t life) {
  const auto found = parts_.find(stream);
  return found != parts_.end() && found->second.life == life ? &found->second : nullptr;
}

void Keeper::arrived(const StagingServer::Arrival& arrival) {
  Part& part = parts_.at(arrival.stream);
  if (part.slots.try_emplace(arrival.sequence, arrival.slot).second) return;
  end(arrival.stream, {Code::kInvalid, "a checkpoint came with one slot twice"});
  server_.release(arrival.slot);
}

// All of it is there, and its manifest can be read.
Status Keeper::look_at(uint32_t stream, Part& part) const {
  const uint64_t slots = server_.slots(stream);
  const bool is_whole =
      part.slots.size() == slots && (slots == 0 || part.slots.rbegin()->first == slots - 1);
  if (!is_whole) return {Code::kDamaged, part.name() + " is not all in memory any more"};
  std::vector<std::byte> bytes;
  for (const auto& [sequence, slot] : part.slots) {
    if (server_.is_direct(slot)) {
      return {Code::kInvalid, part.name() + " is to stay in memory, and part of it is elsewhere"};
    }
    if (!server_.pieces(slot).empty()) continue;
    const std::span<const std::byte> of_slot = server_.bytes(slot);
    bytes.insert(bytes.end(), of_slot.begin(), of_slot.end());
  }
  size_t text_bytes = 0;
  const Result<ManifestText> text =
      parse_manifest_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, text_bytes);
  if (!text.ok()) return text.status();
  const auto manifest = decode_manifest_without_extents(std::span(bytes).subspan(text_bytes));
  if (!manifest.ok()) return manifest.status();
  if (manifest->parent != 0) {
    return {Code::kInvalid, part.name() + " is to stay in memory, and builds on another one"};
  }
  part.journal = text->journal;
  part.is_alone = manifest->ranks == 1;
  return {};
}

void Keeper::seal(uint32_t stream) {
  Part& part = parts_.at(stream);
  part.is_sealed = true;
  if (Status good = look_at(stream, part); !good.ok()) return end(stream, good);
  // An earlier backend has found it whole.
  if (server_.keeping(stream, part.life) == Keeping::kStays) {
    return settled(stream, part.life, {});
  }
  const Status added = work_on(
      stream,
      [this](const Part& sealed) {
        for (const auto& [sequence, slot] : sealed.slots) {
          if (sealed.gave_up->load()) return Status();
          memory_.slots()[slot].checksum = slot_checksum(memory_, slot);
        }
        if (!sealed.journal) return Status();
        return actions_.make_journal_durable(
            *sealed.journal, [gave_up = sealed.gave_up] { return gave_up->load(); });
      },
      &Keeper::settled);
  if (!added.ok()) end(stream, added);
}

// With a copy of the part, which may end meanwhile.
Status Keeper::work_on(uint32_t stream, std::function<Status(const Part& part)> work, Then then) {
  return background_.add([this, stream, part = parts_.at(stream), work = std::move(work), then] {
    const Status done = work(part);
    actions_.post(
        [this, stream, life = part.life, done, then] { (this->*then)(stream, life, done); });
  });
}

void Keeper::settled(uint32_t stream, uint32_t life, const Status& status) {
  Part* const part = find(stream, life);
  if (part == nullptr || part->gave_up->load()) return;
  if (!status.ok()) return end(stream, status);
  part->is_whole = true;
  server_.keep(stream, life, Keeping::kStays);
  end_superseded();
}

// A client may still give up a part that is whole. Until it has left it, earlier ones stay.
void Keeper::end_superseded() {
  KeptParts::Streams found;
  for (auto& [stream, part] : parts_) {
    if (!part.is_whole || part.is_left || !server_.is_left(stream)) continue;
    part.is_left = true;
    for (const uint32_t each : kept_.whole(stream, part.is_alone)) found.push_back(each);
  }
  for (const uint32_t each : found) {
    if (parts_.contains(each)) end(each, {});
  }
}

void Keeper::give_up(uint32_t stream, const Status& why) {
  end(stream, why);
}

void Keeper::begins(const std::string& job, const CheckpointText& text) {
  for (const uint32_t each : kept_.superseded(job, text.rank, text.complete)) end(each, {});
}

void Keeper::committed(const std::string& job, const CheckpointText& text) {
  for (const uint32_t each : kept_.stored(job, text.rank, text.epoch)) end(each, {});
}

// A client is told by its stream; for one that has gone, the log is told.
void Keeper::end(uint32_t stream, const Status& outcome) {
  const bool is_orphan = parts_.at(stream).is_sealed && server_.is_orphan(stream);
  if (!outcome.ok() && is_orphan) actions_.warn(outcome);
  drop(stream, outcome);
}

// The stream first: a backend that follows finds slots that belong to nobody.
void Keeper::drop(uint32_t stream, const Status& outcome) {
  const auto found = parts_.find(stream);
  const Part part = std::move(found->second);
  parts_.erase(found);
  kept_.remove(stream);
  part.gave_up->store(true);
  server_.end(stream, outcome);
  for (const auto& [sequence, slot] : part.slots) server_.release(slot);
}

void Keeper::tend(KeptParts::Time now, bool is_full, bool is_sent, bool ends) {
  constexpr auto kFullFor = std::chrono::milliseconds(100);
  // Other parts may be on their way, and make room.
  constexpr auto kFullForLong = std::chrono::seconds(1);
  if (!is_full) full_since_.reset();
  if (is_full && !full_since_) full_since_ = now;
  const bool is_short = full_since_ && now - *full_since_ >= kFullFor && !is_sent;
  end_superseded();
  const auto has_client = [this](uint32_t stream) { return !server_.is_orphan(stream); };
  const KeptParts::Streams abandoned = kept_.abandoned(has_client, now, keeps_);
  if (leaving_) return;
  if (!abandoned.empty()) return send(abandoned.front());
  if (!is_short && !ends) return;
  if (const auto chosen = kept_.least_needed(has_client)) return send(*chosen);
  if (is_short && now - *full_since_ >= kFullForLong) send_filling();
}

// Its program waits for a slot, and all are its own: it would never be whole. The oldest goes.
void Keeper::send_filling() {
  std::optional<uint32_t> oldest;
  for (const auto& [stream, part] : parts_) {
    if (part.is_sealed) continue;
    if (!oldest || part.text.epoch < parts_.at(*oldest).text.epoch) oldest = stream;
  }
  if (!oldest) return;
  server_.keep(*oldest, parts_.at(*oldest).life, Keeping::kFlows);
  if (Status sent = hand_out(*oldest, false); !sent.ok()) end(*oldest, sent);
}

// Checksums of what goes to the store are made of what is in memory then.
void Keeper::send(uint32_t stream) {
  const Status added = work_on(
      stream,
      [this](const Part& whole) {
        for (const auto& [sequence, slot] : whole.slots) {
          if (whole.gave_up->load()) return Status();
          if (memory_.slots()[slot].checksum == slot_checksum(memory_, slot)) continue;
          return Status(Code::kDamaged, whole.name() + " was changed in memory, and is dropped");
        }
        return Status();
      },
      &Keeper::checked);
  if (added.ok()) leaving_ = stream;
}

void Keeper::checked(uint32_t stream, uint32_t life, const Status& status) {
  leaving_.reset();
  Part* const part = find(stream, life);
  if (part == nullptr || part->gave_up->load()) return;
  if (!status.ok()) {
    actions_.warn(status);
    return drop(stream, status);
  }
  server_.keep(stream, life, Keeping::kLeaves);
  if (Status sent = hand_out(stream, true); !sent.ok()) {
    server_.keep(stream, life, Keeping::kStays);
    return actions_.warn(sent);
  }
}

Status Keeper::hand_out(uint32_t stream, bool is_whole) {
  const Part& part = parts_.at(stream);
  Leaving leaving{stream, part.text, {}, is_whole};
  for (const auto& [sequence, slot] : part.slots) {
    leaving.slots.push_back({slot, stream, sequence});
  }
  if (Status sent = actions_.send(leaving); !sent.ok()) return sent;
  parts_.erase(stream);
  kept_.remove(stream);
  return {};
}

bool Keeper::needs(const ManifestText::Journal& journal) const {
  return std::ranges::any_of(parts_, [&](const auto& entry) {
    const Part& part = entry.second;
    if (part.is_whole) return false;
    const bool is_named = part.journal && part.journal->stream == journal.stream &&
                          part.journal->life == journal.life;
    return !part.is_sealed || is_named;
  });
}

bool Keeper::is_filling() const {
  return std::ranges::any_of(parts_, [](const auto& entry) { return !entry.second.is_sealed; });
}

void Keeper::leave() {
  for (auto& [stream, part] : parts_) part.gave_up->store(true);
}

}  // namespace gpusnap
