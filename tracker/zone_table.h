// The memory zone table of GPU Snapshot (section 4.1.3), kept in software: for every zone of one
// range of device memory, whether the snapshot in progress still has to save it.
//
// Pure logic: no CUDA, no threads, no I/O. Not thread-safe; the owner serialises.
#pragma once

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

class ZoneTable {
 public:
  // `bytes` of memory in zones of `zone_bytes` (a power of two). The last zone may be short.
  ZoneTable(uint64_t bytes, uint64_t zone_bytes);

  uint64_t bytes() const { return bytes_; }
  uint64_t zone_bytes() const { return zone_bytes_; }
  uint64_t zones() const { return zones_; }
  uint64_t pending_zones() const { return pending_; }
  bool any_pending() const { return pending_ != 0; }
  bool is_pending(uint64_t zone) const;

  // The cut: every zone has to be saved.
  void mark_all_pending();
  // Every zone that [offset, offset + size) touches. Out of range parts are ignored.
  void mark_pending(uint64_t offset, uint64_t size);
  void mark_saved(uint64_t offset, uint64_t size);

  // The first run of pending zones at or after the zone that holds byte `from`, of at most
  // `max_bytes` (rounded down to whole zones, at least one). None when nothing is pending from
  // there on.
  std::optional<ZoneRun> next_pending(uint64_t from, uint64_t max_bytes) const;

 private:
  struct ZoneSpan {
    uint64_t first = 0;
    uint64_t end = 0;  // one past
  };
  ZoneSpan zones_of(uint64_t offset, uint64_t size) const;
  uint64_t find(uint64_t zone, bool pending) const;

  uint64_t bytes_ = 0;
  uint64_t zone_bytes_ = 0;
  uint64_t zones_ = 0;
  uint64_t pending_ = 0;
  std::vector<uint64_t> bits_;  // one a zone: pending
};

}  // namespace gpusnap
