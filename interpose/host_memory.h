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
#include "tracker/write_set.h"

namespace gpusnap {

class HostMemory {
 public:
  void add(uint64_t address, uint64_t size);
  void remove(uint64_t address);
  bool empty() const { return ranges_.empty(); }
  // Whether [address, address + size) lies in one range.
  bool contains(uint64_t address, uint64_t size) const;

  // Recording: the device may change that memory from now on; `set` beyond our ranges is nothing to
  // us.
  void may_change(const WriteSet& set);
  void may_change_all();
  // Whether begin_write() of that set gives ranges: most calls write to the device's own memory
  // alone, and nobody need know when they end. After a guess all memory may have changed, and of
  // what it names that is known.
  bool has_end_of(const WriteSet& set);
  // Likewise, but only until the end of that write is told: `ranges` gets their numbers, once each.
  // From then on changes are the host's, which other threads' captures must not take for the
  // device's: they would be delivered to a thread that is not there yet.
  void begin_write(const WriteSet& set, std::vector<uint64_t>& ranges);
  void end_write(const std::vector<uint64_t>& ranges);
  // The device has another address for the memory at `address`, so no set tells of it.
  void has_other_address(uint64_t address);
  // Recording: the device is idle, and its changes have been captured.
  void is_settled();

  // Recording: brings the mirrors of what the device may change up to date and appends what was
  // different. The deliveries point into the mirrors: good until the next call of anything here.
  // Returns the flag that says what was looked at: kCaptured, where it was all memory,
  // kPartlyCaptured, where each range that was looked at has a delivery, or 0 for none.
  uint8_t capture(std::vector<Delivery>& deliveries);
  // The same while host code of the program runs, which may change that memory, too: only what is
  // known to be written. False: other memory has changed that the device may have written, and
  // nobody can tell whose doing that is.
  bool capture_known(std::vector<Delivery>& deliveries, uint8_t& flags);
  // The host got these bytes by a journaled copy: no news for the next capture. Recording and
  // replay.
  void note_copied(uint64_t address, uint64_t size);

  // Replay: the place in the mirror for a delivery; empty when there is no such place.
  std::span<std::byte> mirror(uint64_t address, uint64_t offset, uint64_t size);
  // Replay: makes all memory equal to the mirrors, or the one range that begins there.
  void settle();
  void settle(uint64_t address);

 private:
  struct Range {
    uint64_t size = 0;
    std::unique_ptr<std::byte[]> mirror;  // starts as zeros, whatever the memory holds
    uint64_t number = 0;                  // of its own: another life of the same memory has another
    uint64_t writes = 0;                  // that have begun and not ended
    bool may_change = false;
    bool other_address = false;
  };
  template <class Visit>
  void for_each_in(const WriteSet& set, Visit&& visit);
  bool is_known(const Range& range) const {
    return range.may_change || range.writes != 0 || (range.other_address && others_may_change_);
  }
  static void look_at(uint64_t address, Range& range, std::vector<Delivery>& deliveries);
  static void settle(uint64_t address, Range& range);
  static std::byte* memory(uint64_t address) { return reinterpret_cast<std::byte*>(address); }
  std::map<uint64_t, Range>::iterator find(uint64_t address);
  std::map<uint64_t, Range> ranges_;      // by address
  uint64_t range_count_ = 0;              // there have been
  bool some_have_other_address_ = false;  // or had
  bool all_may_change_ = false;
  bool others_may_change_ = false;  // those with another address
};

}  // namespace gpusnap
