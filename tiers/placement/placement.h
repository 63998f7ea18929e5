// SPDX-License-Identifier: Apache-2.0
// Decides which local tier the next chunk goes to, or whether it waits: algorithm 2 of the VeloC
// paper (section IV.B). The producers and the order of flushes differ from algorithms 1 and 3:
// docs/design/placement.md. No threads, no I/O, no clock.
//
// The way of a chunk, and the lines of the paper that correspond to it:
//   request()      a chunk enters the queue (algorithm 1, line 6) and is given a tier at once
//                  (algorithm 2), or by one of the later calls that return grants
//   written()      the chunk is there (algorithm 1, lines 8 to 10)
//   flush_begun()  a thread writes it to the external store (algorithm 3, lines 1 and 2)
//   flush_ended()  the tier has room again, the average is updated (algorithm 3, lines 3 and 4),
//                  and waiting producers are considered again (algorithm 2, line 15)
// Functions for cases that the paper does not treat are marked: producers that die, flushes that
// fail, and chunks that an earlier backend left.
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

// Chunks that a tier holds, or has room reserved for.
struct TierCounters {
  uint64_t writing = 0;   // given to producers, not yet written: S_w
  uint64_t waiting = 0;   // written, no flush begun
  uint64_t flushing = 0;  // being flushed
  uint64_t cached() const { return writing + waiting + flushing; }  // S_c
  bool operator==(const TierCounters&) const = default;
};

// Thread-safe; no call blocks for longer than other calls compute. A call that contradicts the
// state (more chunks written than granted) is refused with kInvalid and changes nothing.
class Placement {
 public:
  struct Grant {
    uint64_t producer = 0;
    size_t tier = 0;
    bool operator==(const Grant&) const = default;
  };
  // In the order in which producers are to be told: that of their requests.
  using Grants = std::vector<Grant>;

  struct Settings {
    PlacementPolicy policy = PlacementPolicy::kHybridOpt;
    // Bandwidth of flushes before the first one has ended, in bytes per second; 0: not known, and
    // every tier counts as faster.
    double first_flush_bandwidth = 0;
    size_t flush_window = 16;  // flushes in the moving average
  };

  // `tiers`: in the order in which the naive policy prefers them, the cache first. Returns kInvalid
  // if the policy has no tier with room for a chunk.
  static Result<std::unique_ptr<Placement>> make(std::vector<LocalTier> tiers,
                                                 const Settings& settings);

  // Returns the tier for the producer's next chunk. Empty: the producer waits for its turn. A
  // producer that waits already keeps its place.
  std::optional<size_t> request(uint64_t producer);

  Status written(size_t tier);
  Status flush_begun(size_t tier);
  // `seconds`: the time of this flush alone, from the end of writing its chunk. The paper flushes
  // each chunk as soon as it is written, with as many threads as that takes. With a limited number,
  // the wait of a chunk for a thread belongs to its flush. A flush without bytes or time does not
  // change the bandwidth.
  Result<Grants> flush_ended(size_t tier, uint64_t bytes, double seconds);

  // Not in the paper. Sets the bytes of all chunks that are written and not flushed, and the sum of
  // their times since then; see FlushAverage::so_far(). The last call counts.
  Grants flushes_so_far(uint64_t bytes, double seconds);

  // Not in the paper. A flush failed after `seconds`, and its chunk is dropped with its checkpoint.
  // The time counts in the average, so that a store that has gone counts as slow and does not hold
  // up producers while local tiers have room.
  Result<Grants> flush_failed(size_t tier, double seconds);
  // Not in the paper. A producer that was granted the tier will not write its chunk.
  Result<Grants> abandoned(size_t tier);
  // Not in the paper. Reserves a place for a chunk that does not pass through memory: on the
  // fastest tier after the first one that the policy may use and that has room. Empty if there is
  // none, or if producers wait. From then on the place counts as granted to a producer.
  std::optional<size_t> reserve_behind_first();
  // Not in the paper. Removes a waiting producer from the queue. Returns false if it did not wait.
  bool cancel(uint64_t producer);
  // Not in the paper. An earlier backend left a chunk on the tier, written and to be flushed. The
  // tier may exceed its capacity by it: others were placed before it was found.
  Status adopt(size_t tier);
  // Not in the paper. The tier has failed and gets no chunks until resume(). If the policy has no
  // other tier, chunks go to the first. Chunks on the tier are not affected.
  Result<Grants> suspend(size_t tier);
  Result<Grants> resume(size_t tier);

  size_t tiers() const NO_THREAD_SAFETY_ANALYSIS { return tiers_.size(); }  // never changes
  TierCounters counters(size_t tier) const;  // zeros if there is no such tier
  // Returns an existing tier, which never changes.
  const LocalTier& local(size_t tier) const NO_THREAD_SAFETY_ANALYSIS {
    return tiers_.at(tier).local;
  }
  double flush_bandwidth() const;  // AvgFlushBW; bytes per second
  // Returns whether the bandwidth is measured, at least from a flush in flight.
  bool has_flushed() const;
  // The average of flushes that have ended. Empty before the first.
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
