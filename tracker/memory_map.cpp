#include "tracker/memory_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpusnap {

bool MemoryMap::insert(MemoryRange range) {
  if (range.size == 0 || range.end() < range.address) return false;
  const auto next = ranges_.lower_bound(range.address);
  if (next != ranges_.end() && next->first < range.end()) return false;
  if (next != ranges_.begin() && std::prev(next)->second.end() > range.address) return false;
  const uint64_t address = range.address;
  range.life = next_life_++;
  if (is_on_device(range.kind)) {
    lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), address),
                  std::memory_order_relaxed);
    highest_.store(std::max(highest_.load(std::memory_order_relaxed), range.end()),
                   std::memory_order_relaxed);
  }
  if (range.kind == MemoryKind::kGlobal) {
    lowest_variable_ = std::min(lowest_variable_, address);
    highest_variable_ = std::max(highest_variable_, range.end());
  }
  ranges_.emplace_hint(next, address, std::move(range));
  return true;
}

void MemoryMap::continue_life(uint64_t address, uint64_t life) {
  const auto it = ranges_.find(address);
  if (it == ranges_.end()) return;
  it->second.life = life;
  next_life_ = std::max(next_life_, life + 1);
}

bool MemoryMap::erase(uint64_t address) {
  return ranges_.erase(address) != 0;
}

void MemoryMap::erase_module(uint64_t module) {
  std::erase_if(ranges_, [module](const auto& entry) {
    return entry.second.is_variable() && entry.second.module == module;
  });
}

std::vector<uint64_t> MemoryMap::erase_views(uint64_t address, uint64_t size) {
  std::vector<uint64_t> numbers;
  for (auto it = ranges_.lower_bound(address); it != ranges_.end() && it->first - address < size;) {
    if (it->second.kind != MemoryKind::kView) {
      ++it;
      continue;
    }
    numbers.push_back(it->second.module);
    it = ranges_.erase(it);
  }
  return numbers;
}

void MemoryMap::set_shared(uint64_t address) {
  const auto it = ranges_.find(address);
  if (it != ranges_.end()) it->second.shared = true;
}

void MemoryMap::set_context(uint64_t address, uint64_t context) {
  const auto it = ranges_.find(address);
  if (it != ranges_.end()) it->second.context = context;
}

const MemoryRange* MemoryMap::find(uint64_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  const MemoryRange& range = std::prev(next)->second;
  return address < range.end() ? &range : nullptr;
}

const MemoryRange* MemoryMap::at(uint64_t address) const {
  const auto found = ranges_.find(address);
  return found != ranges_.end() ? &found->second : nullptr;
}

std::map<Identity, const MemoryRange*> MemoryMap::by_identity() const {
  std::map<Identity, const MemoryRange*> found;
  for (const auto& [address, range] : ranges_) {
    if (range.kind == MemoryKind::kDevice) found.emplace(range.identity, &range);
  }
  return found;
}

MemoryMap::Space MemoryMap::space_of(uint64_t address) const {
  auto it = spaces_.upper_bound(address);
  if (it == spaces_.begin()) return {};
  --it;
  if (address - it->first >= it->second) return {};
  Space space{it->first, it->first + it->second};
  for (auto before = it; before != spaces_.begin();) {
    --before;
    if (before->first + before->second != space.begin) break;
    space.begin = before->first;
  }
  for (auto next = std::next(it); next != spaces_.end() && next->first == space.end; ++next) {
    space.end += next->second;
  }
  return space;
}

std::optional<uint64_t> MemoryMap::start_of(uint64_t address) const {
  if (const Space space = space_of(address); space.end != 0) return space.begin;
  const MemoryRange* range = find(address);
  return range == nullptr ? std::nullopt : std::optional(range->address);
}

MemoryMap::Space MemoryMap::reach_of(const WriteSet::Range& range) const {
  if (range.size != WriteSet::kWholeRange) return {range.address, range.address + range.size};
  if (const Space space = space_of(range.address); space.end != 0) return space;
  const MemoryRange* const found = find(range.address);
  return found == nullptr ? Space{} : Space{found->address, found->end()};
}

bool MemoryMap::has_host_memory(Space part) const {
  for (auto it = ranges_.lower_bound(part.begin); it != ranges_.end() && it->first < part.end;
       ++it) {
    if (!is_on_device(it->second.kind)) return true;
  }
  return false;
}

void MemoryMap::make_room(WriteSet& writes) const {
  constexpr size_t kMost = WriteSet::kMost, kLeft = kMost / 2;
  if (!writes.is_full()) return;
  Space parts[kMost];
  size_t count = 0;
  for (const WriteSet::Range& range : writes) {
    if (const Space part = reach_of(range); part.end != 0) parts[count++] = part;
  }
  writes.clear_ranges();
  if (count == 0) return;
  std::sort(parts, parts + count, [](Space a, Space b) { return a.begin < b.begin; });
  // The bytes before each part but the first; as many as can be where it must be kept apart.
  uint64_t gaps[kMost], sorted[kMost];
  uint64_t end = parts[0].end;
  for (size_t i = 1; i < count; ++i) {
    gaps[i] = parts[i].begin <= end ? 0 : parts[i].begin - end;
    if (gaps[i] != 0 && has_host_memory({end, parts[i].begin})) gaps[i] = UINT64_MAX;
    end = std::max(end, parts[i].end);
  }
  std::copy(gaps + 1, gaps + count, sorted);
  std::sort(sorted, sorted + count - 1);
  const uint64_t closed = count <= kLeft ? 0 : std::min(sorted[count - kLeft - 1], UINT64_MAX - 1);
  for (size_t i = 0; i < count;) {
    Space joined = parts[i];
    for (++i; i < count && gaps[i] <= closed; ++i) joined.end = std::max(joined.end, parts[i].end);
    writes.add(joined.begin, joined.end - joined.begin);
  }
}

// Memory that was made and mapped in one order lies side by side at our addresses, too: one range.
void MemoryMap::lead(Space part, WriteSet& writes) const {
  Space led;
  auto it = ranges_.upper_bound(part.begin);
  if (it != ranges_.begin() && std::prev(it)->second.end() > part.begin) --it;
  for (; it != ranges_.end() && it->first < part.end && !writes.everything(); ++it) {
    const MemoryRange& view = it->second;
    if (view.kind != MemoryKind::kView) continue;
    const uint64_t from = std::max(view.address, part.begin);
    const uint64_t size = std::min(view.end(), part.end) - from;
    const uint64_t at = view.origin + (from - view.address);
    if (at != led.end) {
      make_room(writes);
      writes.add(led.begin, led.end - led.begin);
      led = {at, at};
    }
    led.end += size;
  }
  make_room(writes);
  writes.add(led.begin, led.end - led.begin);
}

void MemoryMap::lead(WriteSet& writes) const {
  if (spaces_.empty() || writes.everything()) return;
  const WriteSet given = writes;
  writes.clear_ranges();
  for (const WriteSet::Range& range : given) {
    const Space space = space_of(range.address);
    const bool whole = range.size == WriteSet::kWholeRange;
    make_room(writes);
    // A range that was joined may begin in a space and go on behind it.
    const bool is_beyond = !whole && range.address + range.size > space.end;
    if (space.end == 0 || is_beyond) writes.add(range.address, range.size);
    if (!whole) {
      lead({range.address, range.address + range.size}, writes);
    } else if (space.end != 0) {
      lead(space, writes);
    }
  }
}

uint64_t MemoryMap::bytes_of(MemoryKind kind) const {
  uint64_t bytes = 0;
  for (const auto& [address, range] : ranges_) {
    if (range.kind == kind) bytes += range.size;
  }
  return bytes;
}

}  // namespace gpusnap
