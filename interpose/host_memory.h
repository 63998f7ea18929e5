// Memory that host and device both see (pinned, mapped, managed). It is host state: never loaded at
// a restore. What the device changed in it is journaled where the host could first see it.
//
// Each range has a mirror: its content when it was last looked at, in the recording and in its
// replay alike. A capture journals what differs from the mirror; the replay brings its mirror up to
// date and then makes the memory equal to it. Comparing with the mirror and not with what the host
// last wrote is what makes this exact: a byte that the host changes and the device changes back
// would otherwise be missed.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "interpose/entry.h"

namespace gpusnap {

class HostMemory {
 public:
  void add(uint64_t address, uint64_t size);
  void remove(uint64_t address);
  bool empty() const { return ranges_.empty(); }
  // Whether [address, address + size) lies in one range.
  bool contains(uint64_t address, uint64_t size) const;

  // Recording: brings the mirrors up to date and appends what was different. The deliveries point
  // into the mirrors: good until the next call of anything here.
  void capture(std::vector<Delivery>& deliveries);
  // The host got these bytes by a journaled copy: no news for the next capture. Recording and
  // replay.
  void note_copied(uint64_t address, uint64_t size);

  // Replay: the place in the mirror for a delivery; empty when there is no such place.
  std::span<std::byte> mirror(uint64_t address, uint64_t offset, uint64_t size);
  // Replay: makes all memory equal to the mirrors.
  void settle();

 private:
  struct Range {
    uint64_t size = 0;
    std::unique_ptr<std::byte[]> mirror;  // starts as zeros, whatever the memory holds
  };
  static std::byte* memory(uint64_t address) { return reinterpret_cast<std::byte*>(address); }
  std::map<uint64_t, Range>::iterator find(uint64_t address);
  std::map<uint64_t, Range> ranges_;  // by address
};

}  // namespace gpusnap
