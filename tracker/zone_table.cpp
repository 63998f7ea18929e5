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
  for (Bits& bits : bits_) {
    bits.words.assign(zones_ / kWordBits + (zones_ % kWordBits != 0 ? 1 : 0), 0);
  }
}

bool ZoneTable::is(ZoneBit bit, uint64_t zone) const {
  return zone < zones_ && (at(bit).words[zone / kWordBits] >> (zone % kWordBits) & 1) != 0;
}

ZoneRun ZoneTable::zone(uint64_t index) const {
  const uint64_t offset = index * zone_bytes_;
  return {offset, std::min(zone_bytes_, bytes_ - offset)};
}

void ZoneTable::set(ZoneBit bit, uint64_t offset, uint64_t size) {
  const ZoneSpan span = zones_of(offset, size);
  for_words(span.first, span.end, [&bits = at(bit)](uint64_t word, uint64_t mask) {
    bits.count += static_cast<uint64_t>(std::popcount(mask & ~bits.words[word]));
    bits.words[word] |= mask;
  });
}

void ZoneTable::clear(ZoneBit bit, uint64_t offset, uint64_t size) {
  const ZoneSpan span = zones_of(offset, size);
  for_words(span.first, span.end, [&bits = at(bit)](uint64_t word, uint64_t mask) {
    bits.count -= static_cast<uint64_t>(std::popcount(mask & bits.words[word]));
    bits.words[word] &= ~mask;
  });
}

ZoneTable::ZoneSpan ZoneTable::zones_of(uint64_t offset, uint64_t size) const {
  if (offset >= bytes_ || size == 0) return {};
  const uint64_t last = offset + std::min(size, bytes_ - offset) - 1;
  return {offset / zone_bytes_, last / zone_bytes_ + 1};
}

// The first zone of [zone, end) whose bit is set, or is not; `end` when there is none.
uint64_t ZoneTable::find(const Bits& bits, uint64_t zone, uint64_t end, bool set) {
  while (zone < end) {
    const uint64_t word = bits.words[zone / kWordBits];
    const uint64_t rest = (set ? word : ~word) >> (zone % kWordBits);
    if (rest != 0) return std::min(zone + static_cast<uint64_t>(std::countr_zero(rest)), end);
    zone = (zone / kWordBits + 1) * kWordBits;
  }
  return end;
}

std::optional<ZoneRun> ZoneTable::next(ZoneBit bit, uint64_t from, uint64_t to,
                                       uint64_t max_bytes) const {
  if (at(bit).count == 0 || from >= bytes_ || from >= to) return std::nullopt;
  const ZoneSpan span = zones_of(from, to - from);
  const uint64_t first = find(at(bit), span.first, span.end, true);
  if (first == span.end) return std::nullopt;
  const uint64_t most = std::max<uint64_t>(max_bytes / zone_bytes_, 1);
  uint64_t end = find(at(bit), first, span.end, false);
  end = first + std::min(end - first, most);
  const uint64_t offset = first * zone_bytes_;
  return ZoneRun{offset, std::min((end - first) * zone_bytes_, bytes_ - offset)};
}

}  // namespace gpusnap
