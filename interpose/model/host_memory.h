// Memory that host and device both see (pinned, mapped, managed). It is host state: never loaded at
// a restore. Changes by the device are journaled at the point where the host could first see them.
//
// Each range has a mirror: its content when it was last looked at, in the recording and in its
// replay alike. A capture journals what differs from the mirror; the replay brings its mirror up to
// date and then makes the memory equal to it. Comparing with the mirror and not with what the host
// last wrote is what makes this exact: a byte that the host changes and the device changes back
// would otherwise be missed.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "interpose/journal/entry.h"
#include "tracker/write_set.h"

namespace gpusnap {

class HostMemory {
 public:
  void add(uint64_t address, uint64_t size);
  void remove(uint64_t address);
  bool empty() const { return ranges_.empty(); }
  // Whether [address, address + size) lies in one range.
  bool contains(uint64_t address, uint64_t size) const;

  // Recording: the device may change that memory from now on, and nothing tells until when; `set`
  // beyond our ranges is nothing to us.
  void may_change(const WriteSet& set);
  // Whether `set` tells which ranges change. A guess does not, unless guesses are trusted: where
  // several threads make calls, looking at all memory would find the other threads' changes, and
  // looking at much memory takes long.
  bool is_told_by(const WriteSet& set) const {
    return set.said() && !set.unknown() && (set.proven() || trusts_guesses());
  }
  void trust_guesses() { trusts_guesses_ = true; }
  // Recording: a call may also change ranges of which `set` does not tell.
  void may_change_beyond(const WriteSet& set);
  void may_change_all();
  // Calls visit(number) for each range that a call may write which says that it writes `set`, by
  // the numbers that Look takes. Most calls write to the device's own memory alone. A guess names
  // no more than it knows of.
  template <class Visit>
  void for_each_range(const WriteSet& set, Visit&& visit) const;
  bool has_range_of(const WriteSet& set) const;
  // The device has another address for the memory at `address`, so no set tells of it.
  void has_other_address(uint64_t address);
  // Recording: the device is idle, and its changes have been captured.
  void is_settled();

  // Recording. The bytes of all ranges up to which a guess is not trusted for their sake.
  static constexpr uint64_t kComparedInFull = 4 << 20;
  // Nobody but the device and host code of this process writes to that range.
  void watch(uint64_t address);
  // A guess has been trusted, and the device may still do what it was about.
  bool is_guessed() const { return is_guessed_; }
  // The next part in turn, of ranges that are watched and of which no write tells; empty: there is
  // none. `is_told` is asked for a range by its number.
  template <class IsTold>
  std::span<const std::byte> next_untold(IsTold&& is_told);

  // The ranges that a capture looks at.
  struct Look {
    std::vector<uint64_t> arrived;   // ranges, by number: the device has written there
    std::vector<uint64_t> doubtful;  // ranges that the device may be writing still
    bool functions_run = false;      // host functions run, which may change memory, too
    bool alone = true;               // no host code of the program runs at all
  };
  // Recording: brings the mirrors of what the device may have changed up to date and appends what
  // was different. The deliveries point into the mirrors: good until the next call of anything
  // here. Adds to `flags` what was looked at: kCaptured, if it was all memory; kPartlyCaptured, if
  // each range that was looked at has a delivery. False: memory has changed, and nobody can tell
  // whether the device or host code did that.
  bool capture(const Look& look, std::vector<Delivery>& deliveries, uint8_t& flags);
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
    uint64_t number = 0;                  // another life of the same memory has another
    bool may_change = false;
    bool other_address = false;
    bool is_watched = false;
  };
  template <class Visit>
  static void for_each_in(auto& ranges, const WriteSet& set, Visit&& visit);
  // Something may change it at any time.
  bool is_unmarked(const Range& range) const {
    return range.may_change || (range.other_address && others_may_change_);
  }
  static void look_at(uint64_t address, Range& range, std::vector<Delivery>& deliveries);
  static void settle(uint64_t address, Range& range);
  static std::byte* memory(uint64_t address) { return reinterpret_cast<std::byte*>(address); }
  // The range around the address; end(): there is none.
  static auto find_in(auto& ranges, uint64_t address) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return ranges.end();
    auto it = std::prev(after);
    return address - it->first < it->second.size ? it : ranges.end();
  }
  std::map<uint64_t, Range>::iterator find(uint64_t address) { return find_in(ranges_, address); }
  bool trusts_guesses() const { return trusts_guesses_ || bytes_ > kComparedInFull; }
  std::map<uint64_t, Range> ranges_;      // by address
  uint64_t range_count_ = 0;              // there have been
  uint64_t bytes_ = 0;                    // of all ranges
  bool some_have_other_address_ = false;  // or had
  bool trusts_guesses_ = false;
  bool all_may_change_ = false;
  bool guess_may_be_wrong_ = false;  // likewise all, but nothing speaks for it
  bool is_guessed_ = false;
  bool others_may_change_ = false;  // those with another address
  uint64_t untold_ = 0;             // where the part after the last one begins
};

template <class IsTold>
std::span<const std::byte> HostMemory::next_untold(IsTold&& is_told) {
  constexpr uint64_t kPart = 128 << 10;
  const auto can_be_watched = [&](const Range& range) {
    return range.is_watched && !range.may_change && !range.other_address && !is_told(range.number);
  };
  auto it = find(untold_);
  if (it == ranges_.end()) it = ranges_.lower_bound(untold_);
  for (size_t tried = 0; tried <= ranges_.size(); ++tried, ++it) {
    if (it == ranges_.end()) it = ranges_.begin();
    if (it == ranges_.end()) break;
    const auto& [address, range] = *it;
    if (!can_be_watched(range)) continue;
    const uint64_t offset =
        untold_ > address && untold_ - address < range.size ? untold_ - address : 0;
    const uint64_t size = std::min(kPart, range.size - offset);
    untold_ = address + offset + size;
    return {memory(address) + offset, size};
  }
  return {};
}

template <class Visit>
void HostMemory::for_each_in(auto& ranges, const WriteSet& set, Visit&& visit) {
  for (const WriteSet::Range& written : set) {
    if (auto it = find_in(ranges, written.address); it != ranges.end()) visit(it->second);
    const uint64_t end = written.size == WriteSet::kWholeRange ? 0 : written.address + written.size;
    for (auto it = ranges.upper_bound(written.address); it != ranges.end() && it->first < end;
         ++it) {
      visit(it->second);
    }
  }
}

template <class Visit>
void HostMemory::for_each_range(const WriteSet& set, Visit&& visit) const {
  if (!set.said() || set.everything() || set.empty()) return;
  for_each_in(ranges_, set, [&visit](const Range& range) { visit(range.number); });
  if (!some_have_other_address_) return;
  for (const auto& [address, range] : ranges_) {
    if (range.other_address) visit(range.number);
  }
}

}  // namespace gpusnap
