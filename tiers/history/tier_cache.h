// SPDX-License-Identifier: Apache-2.0
//
// The cache of one tier: which checkpoints it holds, in which state each copy is, and how room is
// made for another one (GPU cache and prefetch paper, sections 4.1 and 4.2). It decides and moves
// no data. Pure logic: no clock, no thread, no I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tiers/history/eviction.h"
#include "tiers/history/fragment_table.h"
#include "tiers/history/life_cycle.h"
#include "tiers/history/restore_queue.h"

namespace gpusnap::history {

// Not thread-safe: one lock for each tier, which is never held while data moves.
class TierCache {
 public:
  struct Options {
    uint64_t capacity = 0;   // bytes
    uint64_t alignment = 1;  // of each copy, a power of two
    Evictor evictor = Evictor::kScore;
  };
  // Only the prefetcher may wait until the application has consumed a copy. If the application's
  // own thread did, or a flush that it waits for, nobody could go on; the paper does not speak of
  // that.
  enum class Asker : uint8_t { kPrefetcher, kAnybodyElse };
  enum class Answer : uint8_t {
    kPlaced,
    kWaiting,  // for the claimed copies to become evictable
    kNoRoom,   // no window can be had without waiting for the application, or at all
  };
  struct Request {
    Version version = 0;
    uint64_t bytes = 0;    // at least 1
    bool is_write = true;  // the copy is written from a faster tier, else read from a slower one
    Asker asker = Asker::kAnybodyElse;
  };
  struct Placed {
    uint64_t offset = 0;
    std::vector<Version> evicted;
  };
  // Nanoseconds until the copy is expected to be evictable.
  using ReadyIn = std::function<int64_t(Version)>;
  // True: prefetches hide it if the checkpoint has to be read for so many nanoseconds.
  using HidesRead = std::function<bool(Version, int64_t)>;

  explicit TierCache(const Options& options);

  // Registers a request for room for a checkpoint that is not in the cache. The claim identifies
  // it until it is placed or withdrawn.
  Claim ask(const Request& request);
  // Goes on with the request as far as the states of the copies allow. Chooses a window and claims
  // it; places the copy when all of the window is evictable; chooses again when a claimed copy has
  // been pinned by a restore or a prefetch, or when another copy has become evictable. To be called
  // again after each change of a state, and after kNoRoom whenever it suits.
  Answer advance(Claim claim, const RestoreQueue& queue, const ReadyIn& ready_in,
                 const HidesRead& hides_read);
  // The result of the last request that advance() placed.
  const Placed& placed() const { return placed_; }
  void withdraw(Claim claim);
  // The copies that go when the request is placed; none before a window was chosen.
  std::span<const Version> waits_for(Claim claim) const { return open_.at(claim).waited_for; }

  // Applies an event that is neither a reservation nor an eviction to a copy in the cache. The
  // life cycle allows it in the copy's state. kStoredBelow and kLostBelow change the copy's
  // stored_below, too.
  void apply(Version version, CopyEvent event);
  // Sets what the copy's life cycle depends on.
  void set_facts(Version version, const CopyFacts& facts);
  // Once the copy is evicted, reading the checkpoint again takes `read_ns` nanoseconds, from a slow
  // tier. While it is hinted, evicting it counts as a wait of as long, unless prefetches hide that.
  void set_read_time(Version version, int64_t read_ns);
  // The application, or a faster tier, has used the copy: for kLru.
  void touch(Version version);

  // kInit for a checkpoint that is not in the cache.
  CopyState state(Version version) const;
  std::optional<uint64_t> offset(Version version) const;
  const FragmentTable& table() const { return table_; }
  Evictor evictor() const { return evictor_; }

 private:
  struct Copy {
    CopyState state = CopyState::kInit;
    CopyFacts facts;
    uint64_t age = 0;     // position in the order of insertion, or of use
    int64_t read_ns = 0;  // 0: soon read again
  };
  struct Open {
    Request request;
    std::vector<Version> waited_for;  // copies of the claimed window, with the states below
    std::vector<bool> pinned;         // whether each was pinned when it was claimed
    uint64_t chosen_at = 0;           // releases_ when the window was chosen
  };

  Candidate candidate(const Fragment& fragment, Asker asker, const RestoreQueue& queue,
                      const ReadyIn& ready_in, const HidesRead& hides_read) const;
  bool choose(Claim claim, Open& open, const RestoreQueue& queue, const ReadyIn& ready_in,
              const HidesRead& hides_read);
  bool window_is_evictable(const Open& open) const;
  bool has_been_pinned_since(const Open& open) const;
  void place(Claim claim, const Open& open);

  const Evictor evictor_;
  FragmentTable table_;
  std::unordered_map<Version, Copy> copies_;
  std::unordered_map<Claim, Open> open_;
  Claim newest_claim_ = 0;
  uint64_t newest_age_ = 0;
  uint64_t releases_ = 0;  // how often a copy has become evictable
  Placed placed_;
};

}  // namespace gpusnap::history
