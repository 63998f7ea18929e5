// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/arena_memory.h"

#include <algorithm>
#include <array>

#include "tracker/block_allocator.h"

namespace gpusnap {

namespace {
constexpr uint64_t kGranule = BlockAllocator::kGranule;

struct Span {
  uint64_t begin = 0, end = 0;
};

uint64_t granule_of(uint64_t address) {
  return address / kGranule * kGranule;
}

Span granules_of(uint64_t address, uint64_t size) {
  return {granule_of(address), granule_of(address + size + kGranule - 1)};
}

// A block's granules: the first and the last one apart where it does not fill them.
std::array<Span, 3> parts_of(uint64_t address, uint64_t size) {
  const auto [begin, end] = granules_of(address, size);
  const uint64_t inner = granule_of(address + kGranule - 1);
  const uint64_t inner_end = granule_of(address + size);
  if (inner > inner_end) return {{{begin, end}, {end, end}, {end, end}}};
  return {{{begin, inner}, {inner, inner_end}, {inner_end, end}}};
}
}  // namespace

ArenaMemory::Pieces::iterator ArenaMemory::first_touching(uint64_t address) {
  auto piece = pieces_.upper_bound(address);
  if (piece == pieces_.begin()) return piece;
  --piece;
  return piece->first + piece->second.memory.size > address ? piece : std::next(piece);
}

ArenaMemory::Pieces::iterator ArenaMemory::unmap(Pieces::iterator piece) {
  const MappedMemory& memory = piece->second.memory;
  if (piece->second.users == 0) {
    unused_.erase(piece->first);
    unused_bytes_ -= memory.size;
  }
  unmap_physical(driver_, memory);
  return pieces_.erase(piece);
}

CUresult ArenaMemory::map_piece(uint64_t begin, uint64_t end) {
  MappedMemory memory{.address = begin, .size = end - begin, .device = device_};
  const CUresult result = map_for_program(driver_, memory);
  if (result != CUDA_SUCCESS) return result;
  for (int peer : peers_) (void)allow_device(driver_, memory, peer);
  pieces_.emplace(begin, Piece{memory, 0});
  unused_.insert(begin);
  unused_bytes_ += memory.size;
  return CUDA_SUCCESS;
}

// Brings one piece to all of it. Another one that reaches into it has no users: where blocks share
// a granule, that is a piece.
CUresult ArenaMemory::back(uint64_t begin, uint64_t end) {
  if (begin == end) return CUDA_SUCCESS;
  auto piece = first_touching(begin);
  const bool is_there =
      piece != pieces_.end() && piece->first == begin && piece->second.memory.size == end - begin;
  if (is_there) return CUDA_SUCCESS;
  while (piece != pieces_.end() && piece->first < end) piece = unmap(piece);
  return map_piece(begin, end);
}

CUresult ArenaMemory::use(uint64_t address, uint64_t size) {
  const auto back_all = [&] {
    CUresult result = CUDA_SUCCESS;
    for (const auto& [begin, end] : parts_of(address, size)) {
      if (result == CUDA_SUCCESS) result = back(begin, end);
    }
    return result;
  };
  CUresult result = back_all();
  if (result == CUDA_ERROR_OUT_OF_MEMORY && release_unused()) result = back_all();
  if (result != CUDA_SUCCESS) return result;
  const uint64_t end = granules_of(address, size).end;
  for (auto piece = first_touching(address); piece != pieces_.end() && piece->first < end;
       ++piece) {
    if (piece->second.users++ != 0) continue;
    unused_.erase(piece->first);
    unused_bytes_ -= piece->second.memory.size;
  }
  return CUDA_SUCCESS;
}

void ArenaMemory::give_back(uint64_t address, uint64_t size) {
  const uint64_t end = granules_of(address, size).end;
  for (auto piece = first_touching(address); piece != pieces_.end() && piece->first < end;
       ++piece) {
    if (--piece->second.users != 0) continue;
    unused_.insert(piece->first);
    unused_bytes_ += piece->second.memory.size;
  }
}

// The highest first: blocks come to the lowest of equal gaps.
bool ArenaMemory::release_unused(uint64_t keep) {
  bool any = false;
  while (unused_bytes_ > keep) {
    (void)unmap(pieces_.find(*unused_.rbegin()));
    any = true;
  }
  return any;
}

void ArenaMemory::allow(int device) {
  if (device == device_ || !peers_.insert(device).second) return;
  // Where the devices cannot reach each other, the program never asked for it.
  for (const auto& [address, piece] : pieces_) (void)allow_device(driver_, piece.memory, device);
}

void ArenaMemory::end() {
  while (!pieces_.empty()) (void)unmap(pieces_.begin());
}

std::vector<MappedMemory> ArenaMemory::pieces(uint64_t address, uint64_t size) const {
  std::vector<MappedMemory> found;
  for (const auto& [begin, piece] : pieces_) {
    if (begin < address + size && begin + piece.memory.size > address)
      found.push_back(piece.memory);
  }
  return found;
}

}  // namespace gpusnap
