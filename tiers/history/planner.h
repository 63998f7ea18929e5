// SPDX-License-Identifier: Apache-2.0
//
// Decides which checkpoint moves between which tiers, and when: writes and restores of the
// application, flushes to slower tiers and prefetches to faster ones (GPU cache and prefetch paper,
// sections 4.1 and 4.3). It moves no data: whoever moves it reports each transfer. Pure logic: no
// clock, no thread, no I/O.
//
// Tier 0 is the fastest. All tiers but the last are caches. The last one keeps all that reaches it,
// so a flush always finds room at the end, and waits for nothing but slower flushes. Only the
// prefetcher waits until the application consumes a checkpoint; a restore never waits for room: it
// reads the fastest copy there is.
//
// With Evictor::kScore, hints also decide about flushes. The checkpoint that is read last is
// flushed first, because it is evicted first. A copy that stays in its cache until it is read is
// flushed to the last tier directly, because a copy in between would be of no use; from then on its
// eviction counts as a wait as long as that flush. While the application reads, all copies are
// flushed like this, unless somebody waits for their room, so that checkpoints still to be read
// stay in the caches in between. A flush to the last tier yields to prefetches and restores from
// there, whatever the evictor, unless somebody waits for the flush.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tiers/history/predictor.h"
#include "tiers/history/read_slack.h"
#include "tiers/history/restore_queue.h"
#include "tiers/history/tier_cache.h"

namespace gpusnap::history {

// In the place of a tier: memory of the program.
inline constexpr int kApplication = -1;

struct Transfer {
  uint64_t id = 0;
  Version version = 0;
  uint64_t bytes = 0;
  size_t lane = 0;  // at most one transfer of a lane runs at a time
  int from = kApplication;
  int to = kApplication;
  uint64_t from_offset = 0;      // in the cache of the tier; 0 for the last tier
  uint64_t to_offset = 0;        // likewise
  std::vector<Version> evicted;  // copies of tier `to` that go to make room
};

enum class Outcome : uint8_t { kDone, kSourceFailed, kTargetFailed };

// Not thread-safe: one lock around it, which is never held while data moves.
class Planner {
 public:
  struct Options {
    std::vector<TierCache::Options> caches;  // fastest first; at least one
    double first_bandwidth = 1e9;            // bytes per second, until a transfer was measured
    bool discard_consumed = false;           // what was restored once need not be kept
  };
  explicit Planner(const Options& options);

  // The application computed for `ns` nanoseconds, at least 0, since its last request ended. To be
  // called before a write or a restore: how fast the application goes on says which reads
  // prefetches can hide. If it is never called, they hide none.
  void computed(int64_t ns);

  // The application's thread has one request at a time: it begins one, and has to wait until
  // outcome() tells how it ended.
  //
  // False: the version exists already. `bytes` is at least 1. `fastest`: the checkpoint is kept on
  // no tier that is faster.
  bool write(Version version, uint64_t bytes, int fastest = 0);
  // As write(), but to caches only, and without a flush until release() or give_up(): the program
  // may still give the checkpoint up, or add to it. outcome() is false if no cache has room; the
  // version is lost then.
  bool write_held(Version version, uint64_t bytes, int fastest = 0);
  void release(Version version);
  // Nobody will restore the checkpoint.
  void give_up(Version version);
  // The last tier holds the checkpoint since an earlier run. False: the version exists already.
  bool adopt(Version version, uint64_t bytes, int fastest = 0);
  // False: the version does not exist. `since_last_ns`: nanoseconds since the last restore.
  bool restore(Version version, int64_t since_last_ns);
  // As restore(), but the application may restore more of the checkpoint until it ends that.
  // `success`: it has what it needs.
  bool restore_part(Version version, int64_t since_last_ns);
  void end_restore(Version version, bool success);
  // True: done. False: no tier could take it, or no copy could be read.
  std::optional<bool> outcome() const { return outcome_; }

  // The application will restore the checkpoint after all that it hinted before. It may not have
  // been written yet, and the hint may turn out wrong.
  void hint(Version version);
  void start_prefetching() { prefetching_ = true; }
  // Hints stay; prefetches that run end as usual.
  void stop_prefetching();
  // From now on, what was restored once need not be kept.
  void discard_consumed();

  // Transfers that may begin now. At most one runs at a time for the application, for the flushes
  // of each tier, for those that pass the next tier, and for the prefetches into each tier. To be
  // called after every other call that changes something.
  std::vector<Transfer> plan();
  // `took_ns`: nanoseconds, at least 0.
  void finished(uint64_t id, Outcome outcome, int64_t took_ns);

  // Where the checkpoint has arrived: the slowest tier that holds all of it; none if no tier does.
  std::optional<int> slowest_copy(Version version) const;
  // No flush is outstanding or running. Flushes that failed are given up.
  bool is_flushed() const;
  // Checkpoints that could not be flushed to the last tier, or were lost before.
  const std::vector<Version>& not_flushed() const { return not_flushed_; }

  // Nanoseconds until the copy in this cache is expected to be evictable, at least 1; kNever if
  // its flush was given up. For reports: how good predictions are.
  int64_t evictable_in_ns(Version version, int tier) const { return ready_in(tier)(version); }

  // Returns the number of transfer lanes. They are numbered from 0: the application's is the first.
  static size_t lanes(size_t caches) { return 1 + 3 * caches; }
  int last_tier() const { return static_cast<int>(caches_.size()); }
  CopyState state(Version version, int tier) const;
  const TierCache& cache(int tier) const { return caches_.at(static_cast<size_t>(tier)); }

 private:
  struct Copy {
    CopyFacts facts;
    int uses = 0;               // running transfers that read or write it
    bool flush_failed = false;  // it is the last copy that there will be
    bool is_void = false;       // kFailed by a read, not by a write: it may be written again
  };
  struct Checkpoint {
    uint64_t bytes = 0;
    int fastest = 0;  // tier
    bool is_consumed = false;
    CopyState last = CopyState::kInit;  // on the last tier
    std::vector<Copy> copies;           // one for each tier
  };
  // Asks for room on a tier, and runs one transfer at a time.
  struct Lane {
    size_t number = 0;
    std::optional<Version> version;  // what room is asked for, or what moves
    int tier = 0;                    // where
    Claim claim = 0;                 // 0: nothing is asked for
    uint64_t running = 0;            // 0: no transfer
  };
  enum class Room : uint8_t { kPlaced, kWaiting, kNone };
  struct Source {
    int tier = 0;
    bool is_readable = false;  // false: it will be, when a transfer ends
  };

  Checkpoint* add(Version version, uint64_t bytes, int fastest);

  void plan_application();
  void plan_write();
  void plan_restore();
  void plan_flush(int tier);
  void plan_direct_flush(Version version, int tier);
  void begin_flush(Lane& lane, Version version, int from, int to);
  std::optional<Version> next_flush(int tier);
  void plan_prefetch(int tier);
  bool is_flushed_directly(Version version, int tier) const;
  bool stays_until_read(Version version, int tier) const;
  bool yields_to_read(int tier) const;
  bool is_flush_awaited(int tier) const;
  bool is_kept_by_flush(Version version, int tier) const;
  std::optional<Version> next_prefetch(int tier);
  bool claim_here_or_faster(Version version, int tier);
  bool is_brought_nearer(Version version, int tier, int source) const;

  Room ask(Lane& lane, Version version, int tier, TierCache::Request request);
  void withdraw(Lane& lane);
  void restart_asks(int tier);
  void begin(Lane& lane, Version version, int from, int to);
  std::optional<Source> fastest(Version version, int beyond) const;

  void fail_to_read(const Transfer& transfer);
  void wrote(const Transfer& transfer, Outcome outcome);
  void restored(const Transfer& transfer, Outcome outcome);
  void flushed(Lane& lane, const Transfer& transfer, Outcome outcome);
  void prefetched(const Transfer& transfer, Outcome outcome);
  void deliver(Version version, int tier);
  void consume(Version version);
  void let_go(Version version);
  void revive(Version version);
  void flush_again(Version version);
  void queue_flush(Version version, int tier);
  void give_flush_up(Version version, int tier);

  bool is_cache(int tier) const { return tier != kApplication && tier != last_tier(); }
  bool is_wanted(Version version) const;  // false: it may be discarded
  bool holds(Version version, int tier) const;
  void apply(Version version, int tier, CopyEvent event);
  void set_facts(Version version, int tier);
  void use(Version version, int tier, int change);
  TierCache::ReadyIn ready_in(int tier) const;
  TierCache::HidesRead hides_read() const;
  ReadSlack::ReadTime read_time() const;

  bool discard_consumed_;
  std::vector<TierCache> caches_;
  std::vector<Predictor> predictors_;  // of the flushes from each cache
  std::unordered_map<Version, Checkpoint> checkpoints_;
  uint64_t largest_ = 0;  // bytes, of all checkpoints
  int64_t pace_ns_ = 0;   // that the application computes between requests; 0: not known
  RestoreQueue queue_;
  bool prefetching_ = false;

  Lane application_;
  bool is_write_ = false;
  std::optional<Version> held_;
  std::optional<Version> partly_restored_;
  std::optional<bool> outcome_ = true;
  std::vector<Lane> flushes_;         // from each cache
  std::vector<Lane> direct_flushes_;  // from each cache to the last tier
  std::vector<Lane> prefetches_;      // into each cache
  std::vector<std::deque<Version>> flush_queues_;
  std::vector<Version> not_flushed_;

  uint64_t newest_transfer_ = 0;
  std::map<uint64_t, Transfer> running_;
  std::vector<Transfer> begun_;
  bool has_changed_ = false;  // a pass of plan() changed what another decision depends on
};

}  // namespace gpusnap::history
