// Decides which local tier the next chunk goes to, or whether to wait for one: algorithm 2 of the
// VeloC paper (section IV.B). The producers that ask and the order of flushes differ from
// algorithms 1 and 3: docs/design/placement.md. The backend keeps this state; it has no threads,
// does no I/O and reads no clock.
//
// A chunk's way, and what corresponds to it in the paper:
//   request()      a chunk enters the queue (algorithm 1, line 6) and is given a tier at once
//                  (algorithm 2), or by one of the later calls that return grants
//   written()      the chunk is there (algorithm 1, lines 8 to 10)
//   flush_begun()  a thread writes it to the external store (algorithm 3, lines 1 and 2)
//   flush_ended()  the tier has room again, the average is updated (algorithm 3, lines 3 and 4),
//                  and whoever waits is looked at again (algorithm 2, line 15)
// Functions for cases that the paper does not speak of are marked: producers that die, flushes that
// fail, and chunks that a backend finds from before its own time.
//
// Calibrations and models are made by measure.h, calibration.h and throughput_model.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/mutex.h"
#include "tiers/placement/flush_average.h"
#include "tiers/placement/throughput_model.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/status.h"

namespace gpusnap {

struct LocalTier {
  std::string name;              // for messages
  uint64_t capacity_chunks = 0;  // S_max
  ThroughputModel model;
};

// The chunks that a tier holds or is promised.
struct TierCounters {
  uint64_t writing = 0;   // given to producers, not yet written: S_w
  uint64_t waiting = 0;   // written, no flush begun
  uint64_t flushing = 0;  // being flushed
  uint64_t cached() const { return writing + waiting + flushing; }  // S_c
  bool operator==(const TierCounters&) const = default;
};

// Thread-safe; no call blocks for longer than the others take to compute. A call that cannot be
// right (more chunks written than were given out) is refused with kInvalid and changes nothing.
class Placement {
 public:
  struct Grant {
    uint64_t producer = 0;
    size_t tier = 0;
    bool operator==(const Grant&) const = default;
  };
  // In the order in which they are to be told, which is that of their requests.
  using Grants = std::vector<Grant>;

  struct Settings {
    PlacementPolicy policy = PlacementPolicy::kHybridOpt;
    // Bandwidth of flushes, in bytes per second, as far as it is known before the first one has
    // ended; 0: not known, and every tier counts as faster.
    double first_flush_bandwidth = 0;
    size_t flush_window = 16;  // flushes in the moving average
  };

  // `tiers` from the one that the naive policy prefers, the cache, to the last. kInvalid where the
  // policy has no tier with room for a chunk.
  static Result<std::unique_ptr<Placement>> make(std::vector<LocalTier> tiers,
                                                 const Settings& settings);

  // The tier for the producer's next chunk, or nothing: it waits for its turn. One that waits
  // already keeps its place.
  std::optional<size_t> request(uint64_t producer);

  Status written(size_t tier);
  Status flush_begun(size_t tier);
  // `seconds` is how long this flush took, by itself, from when its chunk was written. The paper
  // flushes each chunk as soon as it is written, by as many threads as that takes; where there are
  // only so many, what a chunk waits for one belongs to its flush: that is what whoever waits for
  // it sees. One without bytes or time says nothing about the bandwidth.
  Result<Grants> flush_ended(size_t tier, uint64_t bytes, double seconds);

  // Not in the paper. All chunks that are written and not flushed: their bytes, and the time since,
  // one by one. No flush is faster than it can still come out, see FlushAverage; the last call
  // counts.
  Grants flushes_so_far(uint64_t bytes, double seconds);

  // Not in the paper. A flush failed after `seconds`, and its chunk is given up with its
  // checkpoint. The average learns of time in which nothing was flushed, so that a store that is
  // gone comes to count as slow and does not hold up producers while there is room for them.
  Result<Grants> flush_failed(size_t tier, double seconds);
  // Not in the paper. A producer that was given the tier will not write its chunk.
  Result<Grants> abandoned(size_t tier);
  // Not in the paper. A place for a chunk that does not pass through memory: on the fastest tier
  // behind the first that the policy may use and that has room. Nothing where there is none, or
  // where producers wait. From then on it is as one that was given to a producer.
  std::optional<size_t> reserve_behind_first();
  // Not in the paper. Takes a producer that waits out of the queue; false when it did not wait.
  bool cancel(uint64_t producer);
  // Not in the paper. A chunk lies in the tier from an earlier backend, written and to be flushed.
  // It may be one more than the tier has room for: others were placed before it was found.
  Status adopt(size_t tier);
  // Not in the paper. The tier has failed and gets no chunks until it is resumed; where a policy
  // has no other, they go to the first. Nothing else changes for those that it has.
  Result<Grants> suspend(size_t tier);
  Result<Grants> resume(size_t tier);

  size_t tiers() const NO_THREAD_SAFETY_ANALYSIS { return tiers_.size(); }  // never changes
  TierCounters counters(size_t tier) const;  // zeros where there is no such tier
  // Returns a tier that is there; it never changes.
  const LocalTier& local(size_t tier) const NO_THREAD_SAFETY_ANALYSIS {
    return tiers_.at(tier).local;
  }
  double flush_bandwidth() const;  // AvgFlushBW; bytes per second
  // Whether it is known from flushes, of which one is on its way at least.
  bool has_flushed() const;
  // The average of flushes that have ended; nothing before the first.
  std::optional<double> ended_flush_bandwidth() const;
  size_t waiting() const;  // producers

 private:
  struct Tier {
    LocalTier local;
    TierCounters now;
    bool suspended = false;
    bool has_room() const { return !suspended && now.cached() < local.capacity_chunks; }
  };

  Placement(std::vector<LocalTier> tiers, const Settings& settings);
  Status refuse(size_t tier, const char* what) const REQUIRES(mutex_);
  bool has_room_at_all() const;
  bool may_use(size_t tier) const REQUIRES(mutex_);
  static double rate_of_next(const Tier& tier);
  bool any_local() const REQUIRES(mutex_);
  Result<Grants> set_suspended(size_t tier, bool suspended);
  std::optional<size_t> first_with_room() const REQUIRES(mutex_);
  std::optional<size_t> fastest_above(double bandwidth) const REQUIRES(mutex_);
  std::optional<size_t> choose() const REQUIRES(mutex_);
  bool anything_cached() const REQUIRES(mutex_);
  Grants serve() REQUIRES(mutex_);

  const PlacementPolicy policy_;
  mutable Mutex mutex_;
  std::vector<Tier> tiers_ GUARDED_BY(mutex_);
  std::deque<uint64_t> queue_ GUARDED_BY(mutex_);  // Q
  FlushAverage average_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
