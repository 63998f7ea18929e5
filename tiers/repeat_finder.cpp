// SPDX-License-Identifier: Apache-2.0
#include "tiers/repeat_finder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace gpusnap {

namespace {

constexpr size_t kWindow = 64;  // bytes that a hash is of
constexpr size_t kStep = 512;   // every so many bytes one is noted
constexpr int kNoteBits = 15;

// Random numbers for bytes.
constexpr std::array<uint64_t, 256> make_gear() {
  std::array<uint64_t, 256> gear{};
  uint64_t state = 1;
  for (uint64_t& value : gear) {
    state += 0x9e3779b97f4a7c15;
    uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    value = mixed ^ (mixed >> 31);
  }
  return gear;
}
constexpr std::array<uint64_t, 256> kGear = make_gear();

// The upper bits are of the last 64 bytes, each of which is shifted out in its turn.
uint64_t roll(uint64_t hash, std::byte next) {
  return (hash << 1) + kGear[std::to_integer<size_t>(next)];
}
size_t slot_of(uint64_t hash) {
  return hash >> (64 - kNoteBits);
}
uint32_t tag_of(uint64_t hash) {
  return static_cast<uint32_t>(hash >> (32 - kNoteBits));
}

}  // namespace

RepeatFinder::RepeatFinder(Limits limits) : limits_(limits), notes_(size_t{1} << kNoteBits) {}

const std::vector<RepeatFinder::Piece>& RepeatFinder::split(std::span<const std::byte> bytes) {
  pieces_.clear();
  forget_old();
  size_t at = known_.size();
  known_.insert(known_.end(), bytes.begin(), bytes.end());
  if (in_run_) {
    const size_t more = equal_bytes(at, distance_);
    add(distance_, more);
    note_run(at, at + more);
    at += more;
  }
  while (at < known_.size()) {
    in_run_ = false;
    const Run run = find(at);
    add(0, run.from - at);
    add(run.distance, run.bytes());
    at = run.to;
    if (run.bytes() == 0) break;
    note_run(run.from, run.to);
    distance_ = run.distance;
    in_run_ = true;
  }
  return pieces_;
}

void RepeatFinder::add(size_t distance, size_t bytes) {
  if (bytes != 0) pieces_.push_back({distance, bytes});
}

void RepeatFinder::forget_old() {
  if (known_.size() <= 2 * limits_.distance) return;
  const size_t old = known_.size() - limits_.distance;
  known_.erase(known_.begin(), known_.begin() + static_cast<ptrdiff_t>(old));
  forgotten_ += old;
}

// How many bytes from there on are equal to those so far before them.
size_t RepeatFinder::equal_bytes(size_t from, size_t distance) const {
  constexpr size_t kPiece = 4 << 10;
  const std::byte* const bytes = known_.data();
  size_t at = from;
  while (known_.size() - at >= kPiece &&
         std::memcmp(bytes + at, bytes + at - distance, kPiece) == 0) {
    at += kPiece;
  }
  while (at < known_.size() && bytes[at] == bytes[at - distance]) ++at;
  return at - from;
}

// The longest run of that distance that has the place in it, or ends there. None of it is before
// `first`.
RepeatFinder::Run RepeatFinder::run_around(size_t place, size_t distance, size_t first) const {
  size_t from = place;
  const size_t least = std::max(first, distance);
  while (from > least && known_[from - 1] == known_[from - 1 - distance]) --from;
  return {from, place + equal_bytes(place, distance), distance};
}

bool RepeatFinder::is_worth(const Run& run, size_t first) const {
  if (run.to == known_.size() && run.from == first && run.bytes() >= kWindow) return true;
  return run.bytes() >= (run.to == known_.size() ? limits_.run_at_end : limits_.run);
}

// The first run that is worth it from `first` on; an empty one at the end.
RepeatFinder::Run RepeatFinder::find(size_t first) {
  const size_t end = known_.size();
  uint64_t hash = 0;
  // Bytes before `first` count for the hash.
  size_t place = first - std::min(first, kWindow);
  const size_t whole = place + kWindow;
  for (size_t passed = first; place < end;) {
    hash = roll(hash, known_[place++]);
    if (place < whole) continue;
    if (place >= passed) {
      const Run run = try_place(place, hash, first);
      if (is_worth(run, first)) return run;
      // Bytes that were compared in vain are not compared again.
      passed = run.to;
    }
    if ((forgotten_ + place) % kStep == 0) note(place, hash);
  }
  return {end, end, 0};
}

// The run that is found with the hash of the bytes before the place, or with the last run's
// distance.
RepeatFinder::Run RepeatFinder::try_place(size_t place, uint64_t hash, size_t first) {
  Run best{place, place, 0};
  const auto consider = [&](size_t distance) {
    if (distance > limits_.distance || distance + kWindow > place) return;
    const std::byte* const bytes = known_.data() + place - kWindow;
    if (std::memcmp(bytes, bytes - distance, kWindow) != 0) return;
    const Run run = run_around(place, distance, first);
    if (run.bytes() > best.bytes()) best = run;
  };
  if (distance_ != 0 && place % kWindow == 0) consider(distance_);
  const Note& found = notes_[slot_of(hash)];
  if (found.place > forgotten_ && found.tag == tag_of(hash)) {
    const size_t before = static_cast<size_t>(found.place - forgotten_);
    if (before < place) consider(place - before);
  }
  return best;
}

uint64_t RepeatFinder::hash_before(size_t place) const {
  uint64_t hash = 0;
  for (size_t at = place - kWindow; at < place; ++at) hash = roll(hash, known_[at]);
  return hash;
}

void RepeatFinder::note(size_t place, uint64_t hash) {
  notes_[slot_of(hash)] = {tag_of(hash), forgotten_ + place};
}

// Runs are not looked through for others.
void RepeatFinder::note_run(size_t from, size_t to) {
  const uint64_t first = (forgotten_ + from + kStep - 1) / kStep * kStep;
  for (uint64_t place = first; place <= forgotten_ + to; place += kStep) {
    const size_t known = static_cast<size_t>(place - forgotten_);
    if (known >= kWindow) note(known, hash_before(known));
  }
}

}  // namespace gpusnap
