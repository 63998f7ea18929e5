#include "tracker/zone_table.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace gpusnap {
namespace {

constexpr uint64_t kWordBits = 64;

// The bits [first, last] of word `word` that belong to zones [from, to), all of them in one word.
uint64_t mask_of(uint64_t word, uint64_t from, uint64_t to) {
  const uint64_t base = word * kWordBits;
  const uint64_t low = from > base ? from - base : 0;
  const uint64_t high = std::min(to - base, kWordBits);  // one past
  const uint64_t below_high = high == kWordBits ? ~uint64_t{0} : (uint64_t{1} << high) - 1;
  return below_high & (~uint64_t{0} << low);
}

// Calls `change(word, mask)` for each word that holds zones of [from, to).
template <class Change>
void for_words(uint64_t from, uint64_t to, Change change) {
  for (uint64_t word = from / kWordBits; word * kWordBits < to; ++word) {
    change(word, mask_of(word, from, to));
  }
}

}  // namespace

ZoneTable::ZoneTable(uint64_t bytes, uint64_t zone_bytes) : bytes_(bytes), zone_bytes_(zone_bytes) {
  assert(std::has_single_bit(zone_bytes));
  zones_ = bytes / zone_bytes + (bytes % zone_bytes != 0 ? 1 : 0);
  bits_.assign(zones_ / kWordBits + (zones_ % kWordBits != 0 ? 1 : 0), 0);
}

bool ZoneTable::is_pending(uint64_t zone) const {
  return zone < zones_ && (bits_[zone / kWordBits] >> (zone % kWordBits) & 1) != 0;
}

void ZoneTable::mark_all_pending() {
  mark_pending(0, bytes_);
}

void ZoneTable::mark_pending(uint64_t offset, uint64_t size) {
  const ZoneSpan span = zones_of(offset, size);
  for_words(span.first, span.end, [this](uint64_t word, uint64_t mask) {
    pending_ += static_cast<uint64_t>(std::popcount(mask & ~bits_[word]));
    bits_[word] |= mask;
  });
}

void ZoneTable::mark_saved(uint64_t offset, uint64_t size) {
  const ZoneSpan span = zones_of(offset, size);
  for_words(span.first, span.end, [this](uint64_t word, uint64_t mask) {
    pending_ -= static_cast<uint64_t>(std::popcount(mask & bits_[word]));
    bits_[word] &= ~mask;
  });
}

ZoneTable::ZoneSpan ZoneTable::zones_of(uint64_t offset, uint64_t size) const {
  if (offset >= bytes_ || size == 0) return {};
  const uint64_t last = offset + std::min(size, bytes_ - offset) - 1;
  return {offset / zone_bytes_, last / zone_bytes_ + 1};
}

// The first zone at or after `zone` that is pending, or is not; zones_ when there is none.
uint64_t ZoneTable::find(uint64_t zone, bool pending) const {
  while (zone < zones_) {
    const uint64_t word = bits_[zone / kWordBits];
    const uint64_t rest = (pending ? word : ~word) >> (zone % kWordBits);
    if (rest != 0) return std::min(zone + static_cast<uint64_t>(std::countr_zero(rest)), zones_);
    zone = (zone / kWordBits + 1) * kWordBits;
  }
  return zones_;
}

std::optional<ZoneRun> ZoneTable::next_pending(uint64_t from, uint64_t max_bytes) const {
  if (pending_ == 0 || from >= bytes_) return std::nullopt;
  const uint64_t first = find(from / zone_bytes_, true);
  if (first == zones_) return std::nullopt;
  const uint64_t most = std::max<uint64_t>(max_bytes / zone_bytes_, 1);
  uint64_t end = find(first, false);
  end = first + std::min(end - first, most);
  const uint64_t offset = first * zone_bytes_;
  return ZoneRun{offset, std::min((end - first) * zone_bytes_, bytes_ - offset)};
}

}  // namespace gpusnap
