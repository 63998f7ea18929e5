#include "interpose/host_memory.h"

#include <algorithm>
#include <cstring>

namespace gpusnap {

namespace {
// Small enough that one changed flag does not journal much, large enough for memcmp to be fast.
constexpr uint64_t kBlock = 4096;
}  // namespace

void HostMemory::add(uint64_t address, uint64_t size) {
  ranges_[address] = Range{size, std::make_unique<std::byte[]>(size), ++range_count_};
}

void HostMemory::remove(uint64_t address) {
  ranges_.erase(address);
}

std::map<uint64_t, HostMemory::Range>::iterator HostMemory::find(uint64_t address) {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  auto it = std::prev(after);
  return address - it->first < it->second.size ? it : ranges_.end();
}

bool HostMemory::contains(uint64_t address, uint64_t size) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return false;
  auto it = std::prev(after);
  const uint64_t offset = address - it->first;
  return offset < it->second.size && size <= it->second.size - offset;
}

template <class Visit>
void HostMemory::for_each_in(const WriteSet& set, Visit&& visit) {
  for (const WriteSet::Range& written : set) {
    if (auto it = find(written.address); it != ranges_.end()) visit(it->second);
    const uint64_t end = written.size == WriteSet::kWholeRange ? 0 : written.address + written.size;
    for (auto it = ranges_.upper_bound(written.address); it != ranges_.end() && it->first < end;
         ++it) {
      visit(it->second);
    }
  }
}

void HostMemory::may_change(const WriteSet& set) {
  // A guess is good where it can be checked, which nothing here does.
  if (set.everything() || !set.said() || !set.proven()) return may_change_all();
  if (set.empty()) return;
  others_may_change_ = true;
  for_each_in(set, [](Range& range) { range.may_change = true; });
}

bool HostMemory::has_end_of(const WriteSet& set) {
  if (set.everything() || !set.said() || set.empty()) return false;
  bool some = some_have_other_address_;
  for_each_in(set, [&some](const Range&) { some = true; });
  return some;
}

void HostMemory::begin_write(const WriteSet& set, std::vector<uint64_t>& ranges) {
  const bool known = set.said() && !set.everything();
  if (!known || !set.proven()) may_change_all();
  if (!known || set.empty()) return;
  const auto begin = [&ranges](Range& range) {
    if (std::ranges::find(ranges, range.number) != ranges.end()) return;
    ranges.push_back(range.number);
    ++range.writes;
  };
  for_each_in(set, begin);
  for (auto& [address, range] : ranges_) {
    if (range.other_address) begin(range);
  }
}

void HostMemory::end_write(const std::vector<uint64_t>& ranges) {
  for (auto& [address, range] : ranges_) {
    if (std::ranges::find(ranges, range.number) != ranges.end()) --range.writes;
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

uint8_t HostMemory::capture(std::vector<Delivery>& deliveries) {
  if (!all_may_change_) {
    uint8_t flags = 0;
    (void)capture_known(deliveries, flags);
    return flags;
  }
  for (auto& [address, range] : ranges_) look_at(address, range, deliveries);
  return ranges_.empty() ? 0 : kCaptured;
}

bool HostMemory::capture_known(std::vector<Delivery>& deliveries, uint8_t& flags) {
  bool told = true;
  for (auto& [address, range] : ranges_) {
    if (!is_known(range)) {
      told = told && (!all_may_change_ ||
                      std::memcmp(memory(address), range.mirror.get(), range.size) == 0);
      continue;
    }
    flags |= kPartlyCaptured;
    const size_t before = deliveries.size();
    look_at(address, range, deliveries);
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
