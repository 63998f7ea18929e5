#include "interpose/model/host_memory.h"

#include <algorithm>
#include <cstring>

namespace gpusnap {

namespace {
// Small enough that one changed flag does not journal much, large enough for memcmp to be fast.
constexpr uint64_t kBlock = 4096;
}  // namespace

void HostMemory::add(uint64_t address, uint64_t size) {
  remove(address);
  ranges_[address] = Range{size, std::make_unique<std::byte[]>(size), ++range_count_};
  bytes_ += size;
}

void HostMemory::remove(uint64_t address) {
  const auto it = ranges_.find(address);
  if (it == ranges_.end()) return;
  bytes_ -= it->second.size;
  ranges_.erase(it);
}

void HostMemory::watch(uint64_t address) {
  if (auto it = ranges_.find(address); it != ranges_.end()) it->second.is_watched = true;
}

bool HostMemory::contains(uint64_t address, uint64_t size) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  auto it = std::prev(after);
  const uint64_t offset = address - it->first;
  return offset < it->second.size && size <= it->second.size - offset;
}

void HostMemory::may_change(const WriteSet& set) {
  may_change_beyond(set);
  if (!set.said() || set.everything() || set.empty()) return;
  others_may_change_ = true;
  for_each_in(ranges_, set, [](Range& range) { range.may_change = true; });
}

bool HostMemory::has_range_of(const WriteSet& set) const {
  bool some = false;
  for_each_range(set, [&some](uint64_t) { some = true; });
  return some;
}

void HostMemory::may_change_beyond(const WriteSet& set) {
  if (is_told_by(set)) {
    is_guessed_ = is_guessed_ || !set.proven();
  } else if (set.said() && !set.unknown()) {
    guess_may_be_wrong_ = true;
  } else {
    may_change_all();
  }
}

void HostMemory::may_change_all() {
  all_may_change_ = true;
}

void HostMemory::has_other_address(uint64_t address) {
  if (auto it = find(address); it != ranges_.end()) {
    it->second.other_address = some_have_other_address_ = true;
  }
}

void HostMemory::is_settled() {
  all_may_change_ = false;
  guess_may_be_wrong_ = false;
  is_guessed_ = false;
  others_may_change_ = false;
  for (auto& [address, range] : ranges_) range.may_change = false;
}

void HostMemory::look_at(uint64_t address, Range& range, std::vector<Delivery>& deliveries) {
  std::byte* const mirror = range.mirror.get();
  uint64_t run_start = 0, run_size = 0;
  const auto flush = [&] {
    if (run_size == 0) return;
    // The copy first: what is journaled is what the mirror holds, even if the device writes on.
    std::memcpy(mirror + run_start, memory(address) + run_start, run_size);
    deliveries.push_back({{DeliveryHead::kMemory, address, run_start, run_size},
                          plain_block(mirror + run_start, run_size)});
    run_size = 0;
  };
  for (uint64_t offset = 0; offset < range.size; offset += kBlock) {
    const uint64_t size = std::min(kBlock, range.size - offset);
    if (std::memcmp(memory(address) + offset, mirror + offset, size) == 0) {
      flush();
      continue;
    }
    if (run_size == 0) run_start = offset;
    run_size += size;
  }
  flush();
}

namespace {
bool has(const std::vector<uint64_t>& numbers, uint64_t number) {
  return std::ranges::find(numbers, number) != numbers.end();
}
}  // namespace

bool HostMemory::capture(const Look& look, std::vector<Delivery>& deliveries, uint8_t& flags) {
  const bool all = (all_may_change_ || guess_may_be_wrong_) && look.alone;
  if (all && !ranges_.empty()) flags |= kCaptured;
  bool told = true;
  for (auto& [address, range] : ranges_) {
    const bool may_be = has(look.doubtful, range.number) || is_unmarked(range);
    if (!all && !has(look.arrived, range.number) && !(may_be && !look.functions_run)) {
      if (!may_be && !all_may_change_) continue;
      told = told && std::memcmp(memory(address), range.mirror.get(), range.size) == 0;
      continue;
    }
    const size_t before = deliveries.size();
    look_at(address, range, deliveries);
    if (all) continue;
    flags |= kPartlyCaptured;
    if (deliveries.size() == before) {
      deliveries.push_back({{DeliveryHead::kMemory, address, 0, 0}, {}});
    }
  }
  return told;
}

void HostMemory::note_copied(uint64_t address, uint64_t size) {
  auto it = find(address);
  if (it == ranges_.end()) return;
  const uint64_t offset = address - it->first;
  std::memcpy(it->second.mirror.get() + offset, memory(address),
              std::min(size, it->second.size - offset));
}

std::span<std::byte> HostMemory::mirror(uint64_t address, uint64_t offset, uint64_t size) {
  auto it = ranges_.find(address);
  if (it == ranges_.end() || offset > it->second.size || size > it->second.size - offset) return {};
  return {it->second.mirror.get() + offset, size};
}

void HostMemory::settle(uint64_t address, Range& range) {
  // Equal memory is left alone: it may be on its way to the device.
  if (std::memcmp(memory(address), range.mirror.get(), range.size) != 0) {
    std::memcpy(memory(address), range.mirror.get(), range.size);
  }
}

void HostMemory::settle() {
  for (auto& [address, range] : ranges_) settle(address, range);
}

void HostMemory::settle(uint64_t address) {
  if (auto it = ranges_.find(address); it != ranges_.end()) settle(address, it->second);
}

}  // namespace gpusnap
