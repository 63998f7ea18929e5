// The memory zone table of GPU Snapshot (section 4.1.3 and, for its second bit, 4.2.3), kept in
// software: what the snapshot in progress still has to do for every zone of one range of device
// memory, and which zones have been written since the last snapshot.
//
// A zone that has to be saved is pending, then copying (somebody has begun to save it), then
// neither. Where the calls tell what is written, it is dirty from the first write to the next cut,
// and taken from there until that cut's snapshot is complete.
//
// Four bits a zone: 8 KiB for a GiB of memory in zones of 64 KiB.
//
// Pure logic: no CUDA, no threads, no I/O. Not thread-safe; the owner serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpusnap {

// A run of zones, clipped to the range: bytes [offset, offset + size) of it.
struct ZoneRun {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const ZoneRun&) const = default;
};

enum class ZoneBit : uint8_t { kPending, kCopying, kDirty, kTaken };

class ZoneTable {
 public:
  static constexpr uint64_t kEverything = UINT64_MAX;

  // `bytes` of memory in zones of `zone_bytes` (a power of two). The last zone may be short.
  ZoneTable(uint64_t bytes, uint64_t zone_bytes);

  uint64_t bytes() const { return bytes_; }
  uint64_t zone_bytes() const { return zone_bytes_; }
  uint64_t zones() const { return zones_; }
  // Zones whose bit is set.
  uint64_t count(ZoneBit bit) const { return at(bit).count; }
  bool any(ZoneBit bit) const { return at(bit).count != 0; }
  bool is(ZoneBit bit, uint64_t zone) const;
  // Bytes of one zone.
  ZoneRun zone(uint64_t index) const;

  // Every zone that [offset, offset + size) touches. Parts out of range are ignored.
  void set(ZoneBit bit, uint64_t offset, uint64_t size);
  void clear(ZoneBit bit, uint64_t offset, uint64_t size);

  // The first run of zones with the bit at or after the zone that holds byte `from`, ending before
  // byte `to` or with the zone that holds it, of at most `max_bytes` (rounded down to whole zones,
  // at least one). None when there is no such zone.
  std::optional<ZoneRun> next(ZoneBit bit, uint64_t from, uint64_t to = kEverything,
                              uint64_t max_bytes = kEverything) const;

 private:
  struct ZoneSpan {
    uint64_t first = 0;
    uint64_t end = 0;  // one past
  };
  struct Bits {
    std::vector<uint64_t> words;
    uint64_t count = 0;
  };
  ZoneSpan zones_of(uint64_t offset, uint64_t size) const;
  static uint64_t find(const Bits& bits, uint64_t zone, uint64_t end, bool set);
  const Bits& at(ZoneBit bit) const { return bits_[static_cast<size_t>(bit)]; }
  Bits& at(ZoneBit bit) { return bits_[static_cast<size_t>(bit)]; }

  uint64_t bytes_ = 0;
  uint64_t zone_bytes_ = 0;
  uint64_t zones_ = 0;
  std::array<Bits, 4> bits_;
};

}  // namespace gpusnap
