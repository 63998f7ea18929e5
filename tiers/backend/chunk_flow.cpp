// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/chunk_flow.h"

#include <algorithm>
#include <utility>

namespace gpusnap {

void ChunkFlow::adopt(const std::shared_ptr<CheckpointReceiver>& part, size_t tier,
                      const FoundChunk& found) {
  (void)placement_.adopt(tier);
  const uint64_t number = next_++;
  Chunk& chunk = chunks_[number];
  chunk.part = part;
  chunk.tier = tier;
  chunk.closed = true;
  chunk.bytes = found.memory_bytes;
  chunk.on_way->bytes = found.memory_bytes;
  chunk.file_number = found.number;
  queue(number, chunk);
}

void ChunkFlow::arrived(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot,
                        uint64_t sequence) {
  auto found = open_chunk(*part);
  if (found == chunks_.end()) {
    found = chunks_.emplace(next_++, Chunk()).first;
    found->second.part = part;
    if (const auto tier = placement_.request(found->first)) grant(found->first, *tier);
  }
  Chunk& chunk = found->second;
  chunk.slots.push_back({slot, sequence});
  ++chunk.size;
  chunk.bytes += server_.bytes(slot).size();
  if (chunk.file) hand_over(found->first, chunk);
  chunk.closed = chunk.size >= options_.chunk_slots;
  queue_if_written(found->first, chunk);
}

void ChunkFlow::reserve_direct(const std::shared_ptr<CheckpointReceiver>& part, Opened opened) {
  const std::optional<size_t> tier = placement_.reserve_behind_first();
  if (!tier) return opened(0, "");
  const uint64_t number = next_++;
  Chunk& chunk = chunks_[number];
  chunk.part = part;
  chunk.state = State::kReserved;
  chunk.tier = *tier;
  chunk.closed = true;
  ++placed_[*tier];
  part->open_direct(*tier - 1, [this, number, opened = std::move(opened)](uint32_t file_number,
                                                                          std::string path) {
    actions_.post([this, number, file_number, path = std::move(path), opened] {
      direct_opened(number, file_number, path, opened);
    });
  });
}

void ChunkFlow::direct_opened(uint64_t number, uint32_t file_number, const std::string& path,
                              const Opened& opened) {
  const auto found = chunks_.find(number);
  if (found == chunks_.end()) return;
  found->second.file_number = file_number;
  if (path.empty()) {
    const size_t tier = found->second.tier;
    chunks_.erase(found);
    take(placement_.abandoned(tier));
  }
  opened(file_number, path);
}

// An earlier backend may have reserved the chunk: then its room counts from now on.
void ChunkFlow::arrived_direct(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot,
                               uint64_t sequence, size_t tier, DirectChunk direct) {
  auto found = reserved(*part, direct.number);
  if (found == chunks_.end()) {
    (void)placement_.adopt(tier);
    found = chunks_.emplace(next_++, Chunk()).first;
    found->second.part = part;
    found->second.tier = tier;
    found->second.closed = true;
    found->second.file_number = direct.number;
  } else {
    (void)placement_.written(found->second.tier);
  }
  Chunk& chunk = found->second;
  chunk.state = State::kChecking;
  chunk.slots = {{slot, sequence}};
  chunk.size = 1;
  chunk.bytes = direct.bytes();
  chunk.on_way->bytes = chunk.bytes;
  part->add_direct(sequence, std::move(direct), [this, number = found->first] {
    actions_.post([this, number] { direct_stored(number); });
  });
}

void ChunkFlow::direct_stored(uint64_t number) {
  const auto found = chunks_.find(number);
  if (found == chunks_.end()) return;
  for (const Held& held : std::exchange(found->second.slots, {})) actions_.release(held.slot, true);
  queue(number, found->second);
}

ChunkFlow::Chunks::iterator ChunkFlow::reserved(const CheckpointReceiver& part,
                                                uint32_t file_number) {
  return std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& entry) {
    const Chunk& chunk = entry.second;
    return chunk.part.get() == &part && chunk.state == State::kReserved &&
           chunk.file_number == file_number;
  });
}

void ChunkFlow::seal(const CheckpointReceiver& part) {
  if (const auto found = open_chunk(part); found != chunks_.end()) {
    found->second.closed = true;
    queue_if_written(found->first, found->second);
  }
  give_back_reserved(part);
}

// Its client needs no more room.
void ChunkFlow::give_back_reserved(const CheckpointReceiver& part) {
  std::vector<size_t> tiers;
  std::erase_if(chunks_, [&](const auto& entry) {
    const Chunk& chunk = entry.second;
    const bool is_unused = chunk.part.get() == &part && chunk.state == State::kReserved;
    if (is_unused) tiers.push_back(chunk.tier);
    return is_unused;
  });
  for (const size_t tier : tiers) take(placement_.abandoned(tier));
}

// There is one at most, and it is among the last.
ChunkFlow::Chunks::iterator ChunkFlow::open_chunk(const CheckpointReceiver& part) {
  return std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& entry) {
    return entry.second.part.get() == &part && !entry.second.closed;
  });
}

void ChunkFlow::take(const Result<Placement::Grants>& grants) {
  if (!grants.ok()) return;
  for (const Placement::Grant& given : grants.value()) grant(given.producer, given.tier);
}

// A chunk in the cache stays in its slots; on other tiers it needs a file first.
void ChunkFlow::grant(uint64_t number, size_t tier) {
  Chunk& chunk = chunks_.at(number);
  chunk.state = State::kWriting;
  chunk.tier = tier;
  ++placed_[tier];
  if (tier == 0) return queue_if_written(number, chunk);
  chunk.part->open_chunk(tier - 1, [this, number](std::shared_ptr<PlacedFile> file) {
    actions_.post([this, number, file = std::move(file)] { opened(number, file); });
  });
}

void ChunkFlow::opened(uint64_t number, const std::shared_ptr<PlacedFile>& file) {
  const auto found = chunks_.find(number);
  if (found == chunks_.end()) return;
  found->second.file = file;
  found->second.file_number = file->number();
  hand_over(number, found->second);
}

void ChunkFlow::hand_over(uint64_t number, Chunk& chunk) {
  const std::vector<Held> slots = std::exchange(chunk.slots, {});
  chunk.on_way->left += slots.size();
  std::vector<CheckpointReceiver::Slot> added;
  added.reserve(slots.size());
  for (const Held& held : slots) {
    const std::span<const std::byte> bytes = server_.bytes(held.slot);
    added.push_back(
        {held.sequence, server_.pieces(held.slot), bytes,
         [this, number, slot = held.slot, size = bytes.size(), on_way = chunk.on_way](bool stored) {
           actions_.release(slot, stored);
           if (stored) {
             on_way->bytes += size;
           } else {
             on_way->failed = true;
           }
           if (--on_way->left == 0) actions_.post([this, number] { emptied(number); });
         }});
  }
  chunk.part->add(std::move(added), chunk.file);
}

// The part has released all slots of the chunk that it had. If one of them was not stored, the part
// has failed and is dropped soon with the reason.
void ChunkFlow::emptied(uint64_t number) {
  const auto found = chunks_.find(number);
  if (found == chunks_.end()) return;
  Chunk& chunk = found->second;
  if (chunk.on_way->left > 0 || chunk.on_way->failed) return;
  if (chunk.tier == 0) return flushed(number, chunk.on_way->bytes);
  queue_if_written(number, chunk);
}

void ChunkFlow::queue_if_written(uint64_t number, Chunk& chunk) {
  const bool is_there =
      chunk.tier == 0 || (chunk.file && chunk.slots.empty() && chunk.on_way->left == 0);
  if (chunk.state != State::kWriting || !chunk.closed || !is_there) return;
  (void)placement_.written(chunk.tier);
  queue(number, chunk);
}

void ChunkFlow::queue(uint64_t number, Chunk& chunk) {
  chunk.state = State::kQueued;
  chunk.since_ns = clock_.now_ns();
  queue_.add(number, chunk.tier == 0);
  flush_some();
}

void ChunkFlow::flush_some() {
  while (flushing_ < control_.flushes()) {
    const std::optional<uint64_t> next = queue_.next();
    if (!next) return;
    const uint64_t number = *next;
    Chunk& chunk = chunks_.at(number);
    (void)placement_.flush_begun(chunk.tier);
    ++flushing_;
    chunk.state = State::kFlushing;
    if (!counts_wait()) chunk.since_ns = clock_.now_ns();
    if (chunk.tier == 0) {
      hand_over(number, chunk);
      continue;
    }
    chunk.part->move_chunk(chunk.file_number, [this, number, bytes = chunk.on_way->bytes.load()] {
      actions_.post([this, number, bytes] { flushed(number, bytes); });
    });
  }
}

void ChunkFlow::flushed(uint64_t number, uint64_t bytes) {
  const auto found = chunks_.find(number);
  if (found == chunks_.end()) return;
  const Chunk chunk = std::move(found->second);
  chunks_.erase(found);
  --flushing_;
  learn(bytes);
  tell_so_far();
  take(placement_.flush_ended(chunk.tier, bytes, seconds_of_flush(chunk)));
  flush_some();
}

void ChunkFlow::learn(uint64_t bytes) {
  control_.ended(clock_.now_ns(), bytes, queue_.size() > 0);
  flushes_ = control_.flushes();
  best_flushes_ = control_.best();
}

double ChunkFlow::seconds_of_flush(const Chunk& chunk) const {
  return static_cast<double>(clock_.now_ns() - chunk.since_ns) / 1e9;
}

void ChunkFlow::drop(const CheckpointReceiver& part, const Status& status) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, chunk] : chunks_) {
    if (chunk.part.get() == &part) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) {
    Chunk chunk = std::move(chunks_.at(number));
    chunks_.erase(number);
    give_up(number, chunk, status);
  }
  tell_so_far();
  flush_some();
}

void ChunkFlow::give_up(uint64_t number, Chunk& chunk, const Status& status) {
  switch (chunk.state) {
    case State::kWaiting:
      (void)placement_.cancel(number);
      break;
    case State::kReserved:
    case State::kWriting:
      take(placement_.abandoned(chunk.tier));
      break;
    case State::kChecking:
    case State::kQueued:
      queue_.remove(number);
      (void)placement_.flush_begun(chunk.tier);
      take(placement_.flush_ended(chunk.tier, 0, 0));
      break;
    case State::kFlushing:
      --flushing_;
      control_.interrupted();
      take(is_of_device(status) ? placement_.flush_failed(chunk.tier, seconds_of_flush(chunk))
                                : placement_.flush_ended(chunk.tier, 0, 0));
      break;
  }
  for (const Held& held : chunk.slots) actions_.release(held.slot, false);
}

// Feeds unfinished flushes into the average, so waiting chunks are placed even when the store is
// slow.
void ChunkFlow::tell_so_far() {
  const int64_t now = clock_.now_ns();
  uint64_t bytes = 0;
  double ns = 0;
  for (const auto& [number, chunk] : chunks_) {
    const bool counts =
        chunk.state == State::kFlushing || (chunk.state == State::kQueued && counts_wait());
    if (!counts) continue;
    bytes += chunk.bytes;
    ns += static_cast<double>(now - chunk.since_ns);
  }
  take(placement_.flushes_so_far(bytes, ns / 1e9));
}

void ChunkFlow::relieve(bool no_slot) {
  if (placement_.waiting() > 0) tell_so_far();
  const auto wanted = [&] {
    return (no_slot || placement_.waiting() > 0) && flushing_ + queue_.size() < control_.flushes();
  };
  // Closes the oldest chunks first. Chunks on local tiers release their slots anyway: they are
  // closed only if nothing else moves.
  for (auto& [number, chunk] : chunks_) {
    if (!wanted()) return;
    if (chunk.state != State::kWriting || chunk.tier != 0) continue;
    chunk.closed = true;
    queue_if_written(number, chunk);
  }
  if (!wanted() || flushing_ > 0) return;
  const auto moves = [](const auto& entry) {
    const Chunk& chunk = entry.second;
    return chunk.state == State::kWriting && (!chunk.file || chunk.on_way->left > 0);
  };
  if (std::any_of(chunks_.begin(), chunks_.end(), moves)) return;
  const auto oldest = std::find_if(chunks_.begin(), chunks_.end(), [](const auto& entry) {
    return entry.second.state == State::kWriting;
  });
  if (oldest == chunks_.end()) return;
  oldest->second.closed = true;
  queue_if_written(oldest->first, oldest->second);
}

}  // namespace gpusnap
