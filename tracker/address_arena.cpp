#include "tracker/address_arena.h"

#include <iterator>

namespace gpusnap {

void AddressArena::add_chunk(uint64_t address, uint64_t bytes) {
  chunks_[address] = bytes;
  gaps_[address] = bytes;
}

AddressArena::Place AddressArena::place(uint64_t address) const {
  const auto chunk = std::prev(chunks_.upper_bound(address));
  return {address, chunk->first, chunk->second};
}

AddressArena::Place AddressArena::cut_out(Gaps::iterator gap, uint64_t address, uint64_t bytes) {
  const uint64_t begin = gap->first, end = begin + gap->second;
  gaps_.erase(gap);
  if (begin < address) gaps_[begin] = address - begin;
  if (address + bytes < end) gaps_[address + bytes] = end - address - bytes;
  return place(address);
}

std::optional<AddressArena::Place> AddressArena::take(uint64_t bytes) {
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes) return cut_out(gap, gap->first, bytes);
  }
  return std::nullopt;
}

std::optional<AddressArena::Place> AddressArena::take_at(uint64_t address, uint64_t bytes) {
  auto gap = gaps_.upper_bound(address);
  if (gap == gaps_.begin()) return std::nullopt;
  --gap;
  const uint64_t before = address - gap->first;
  if (before >= gap->second || gap->second - before < bytes) return std::nullopt;
  return cut_out(gap, address, bytes);
}

void AddressArena::give_back(uint64_t address, uint64_t bytes) {
  if (chunks_.empty()) return;
  const Place own = place(address);
  const uint64_t chunk_end = own.chunk + own.chunk_bytes;
  auto next = gaps_.lower_bound(address);
  if (next != gaps_.end() && next->first == address + bytes && next->first < chunk_end) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first >= own.chunk && before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  gaps_[address] = bytes;
}

}  // namespace gpusnap
