// One hooked call in the replay journal: what was called, what came of it, and what the host
// learnt.
//
// In the journal's stream an entry is a head, its checked words, its name, its answer and its
// deliveries, one after the other, little-endian and unaligned.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interpose/services/data_digest.h"

namespace gpusnap {

// Raised with every change of what entries mean.
inline constexpr uint32_t kJournalVersion = 7;

// Values of EntryHead::hook that are no hook.
inline constexpr uint16_t kCutEntry = 0xffff;    // a cut was made here: its deliveries
inline constexpr uint16_t kTableEntry = 0xfffe;  // names of the hooks, in order of their numbers
// The next entries are of another thread: its number in this part is the only word. At the first
// change to that thread the name is its path (thread_path.h). Numbers count up from 0.
inline constexpr uint16_t kThreadEntry = 0xfffd;
// A host function began to run here, or has ended: which, in the order in which they were launched,
// is its only word. They are of no thread.
inline constexpr uint16_t kCallbackEntry = 0xfffc;
inline constexpr uint16_t kCallbackEndEntry = 0xfffb;
// The outcome of an MPI call that depends on when messages arrive (mpi/outcomes.h). Its name is the
// call's, its first word the number of the call among those, its answer numbers of 32 bits. A
// second word: so many such calls in a row had the same outcome.
inline constexpr uint16_t kOutcomeEntry = 0xfffa;

struct EntryHead {
  uint16_t hook = 0;
  uint8_t words = 0;        // how many 64-bit words follow: arguments that a replay must repeat
  uint8_t flags = 0;        // EntryFlags
  int32_t result = 0;       // CUresult
  uint32_t name_bytes = 0;  // of a name that a replay must repeat
  uint32_t deliveries = 0;
};
static_assert(sizeof(EntryHead) == 16);

enum EntryFlags : uint8_t {
  kHasAnswer = 1,  // u64 size, then bytes that the call gave back
  kCaptured = 2,   // host-visible memory was looked at: after the deliveries it is as its mirror
  kDeferred = 4,   // a copy back whose bytes are delivered by a later entry
  kPartlyCaptured = 16,  // only memory that has a delivery, be it of no bytes, was looked at
  kAtCollective = 32,  // a cut that was made at the end of an MPI collective; its outcome is right
                       // before it
  kHasData = 64,       // one word more: a digest of what the program gave to the device
                       // (services/data_digest.h)
  kInCall = 128,       // of kCallbackEntry: the program's one thread was inside its next call
  kAtCallEnd = 8,  // a cut that was made at the end of the call before it, not before the next: the
                   // program ran host code after it, which must find what the cut delivered
};

inline constexpr size_t kMaxWords = 12;
inline constexpr size_t kMaxNameBytes = 1 << 20;

// The bits of a digest of arguments that say which of them are in it (tracker/kernel_writes.h).
inline constexpr uint64_t kArgumentsKnown = 0xffff;

// Bytes that reached host memory by the time of the entry.
struct DeliveryHead {
  enum Kind : uint64_t { kCopy = 0, kMemory = 1 };
  uint64_t kind = kCopy;
  uint64_t target = 0;  // kCopy: how many deferred copies came before it; kMemory: range's address
  uint64_t offset = 0;  // kMemory: from the range's start
  uint64_t size = 0;    // bytes that follow
};
static_assert(sizeof(DeliveryHead) == 32);

// A box of host memory, the host's side of a copy: `depth` slices of `height` rows of `width`
// bytes. A plain copy is one row.
struct HostBlock {
  std::byte* start = nullptr;
  uint64_t width = 0, height = 1, depth = 1;
  uint64_t pitch = 0, slice = 0;  // bytes from row to row, from slice to slice

  uint64_t bytes() const { return width * height * depth; }
  template <class Visit>  // visit(std::span<std::byte> row), in order of address
  void for_each_row(Visit&& visit) const {
    if (width == 0) return;
    for (uint64_t z = 0; z < depth; ++z) {
      for (uint64_t y = 0; y < height; ++y) {
        visit(std::span<std::byte>(start + z * slice + y * pitch, width));
      }
    }
  }
};
inline HostBlock plain_block(const void* start, uint64_t bytes) {
  // Journaled from when recording, written to when replaying: the caller's buffer either way.
  return {const_cast<std::byte*>(static_cast<const std::byte*>(start)), bytes, 1, 1, bytes, bytes};
}

// A delivery to be recorded; the block must stay as it is until then.
struct Delivery {
  DeliveryHead head;
  HostBlock block;
};

// The checked part of a call, built on the stack of its handler.
struct CallKey {
  uint64_t words[kMaxWords];
  uint64_t data = 0;  // digest of what the program gives to the device; 0: it is not compared
  std::span<const std::byte> given;  // host memory that is given; look() makes its digest
  uint8_t count = 0;
  std::string_view name;
  void look() {
    if (!given.empty()) data = data_digest(given);
  }
  // All of them or, where there is no room for all, none.
  template <std::convertible_to<uint64_t>... Words>
  void add(Words... more) {
    if (count > kMaxWords - sizeof...(more)) return;
    uint64_t* next = words + count;
    ((*next++ = more), ...);
    count += sizeof...(more);
  }
};

// Whether a call gives the device what the entry says, as far as is known. `arguments`: of a
// kernel, see digest_arguments().
inline bool same_data(uint64_t recorded, uint64_t now, bool arguments) {
  // Data that could not be looked at in one of both runs is not known to differ.
  if (recorded == 0 || now == 0 || now == recorded) return true;
  return arguments && ((now ^ recorded) & kArgumentsKnown) != 0;
}

// Numbers that count up through a part are journaled as steps from the last one of their kind, so
// that equal turns of a loop have equal bytes. The first step is one, too, where nothing was
// before.
class CountedUp {
 public:
  explicit CountedUp(uint64_t first) : last_(first - 1) {}
  uint64_t step_to(uint64_t number) { return number - std::exchange(last_, number); }
  uint64_t after_step(uint64_t step) { return last_ += step; }

 private:
  uint64_t last_;
};
struct PartNumbers {
  CountedUp functions{0};  // host functions
  CountedUp outcomes{1};   // of MPI calls
  CountedUp copies{0};     // that are delivered later
};

// An entry as the replay reads it, but for its deliveries.
struct Entry {
  EntryHead head;
  std::vector<uint64_t> words;
  uint64_t data = 0;  // as the key's
  std::string name;
  std::vector<std::byte> answer;
};

}  // namespace gpusnap
