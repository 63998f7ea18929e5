// SPDX-License-Identifier: Apache-2.0
//
// How many chunks are flushed at the same time: as many as the external store is fastest with
// (the elastic flushes of the VeloC paper, section IV.C, which leave open how many). Some stores
// take one file at a time best, others dozens.
//
// It climbs: as long as more at the same time raise the throughput of all together by more than 5
// %, it goes on in steps that double, so that a store that grows in proportion is followed to its
// end; if they do not, it tries fewer, and then smaller steps. If two numbers are equally good, it
// takes the lower. A number that looks better is taken only if it is better than the old one
// measured once more: others use the store, too. A number with which programs wait longer for their
// own files is not taken, and fewer flushes are taken if programs wait less then. A number that so
// few chunks at a time cannot keep busy is not taken either. It stays with the number that it has
// found, and looks around again now and then.
//
// Pure: it is told of times and has no clock. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "tiers/placement/tier_settings.h"

namespace gpusnap {

inline constexpr uint32_t kFirstFlushes = 4;

class FlushControl {
 public:
  // From `least` to `most`; always the same number where these are equal. `known`: the best for an
  // earlier one with this store; it begins with that, and stays with it for a while. 0: not known.
  FlushControl(uint32_t least, uint32_t most, uint32_t known = 0);

  uint32_t flushes() const { return now_; }
  // It looks for the best number, and does not only stay with one.
  bool adapts() const { return least_ != most_; }
  // The best so far. 0: it has not measured any, or does not adapt.
  uint32_t best() const { return knows_ ? kept_ : 0; }
  // A flush has ended that brought so many bytes. `more`: another one takes its place. Where none
  // does, the store does not get as much as it could take, and nothing is learnt of it.
  void ended(int64_t now_ns, uint64_t bytes, bool more);
  // So many threads of programs wait for a device at the moment. To be told now and then while
  // there are flushes; where it is told too seldom for a measurement, waits do not matter.
  void waited(uint32_t threads);
  // A flush has failed, or was given up.
  void interrupted() { pause(); }

 private:
  enum class Phase { kBase, kCandidate, kAgain, kHold };

  void pause();
  void clear_measurement();
  struct Measured {
    double rate = 0;              // bytes a nanosecond
    std::optional<double> waits;  // threads of programs that waited for a device, on average
  };
  void measured(const Measured& now);
  void judge(const Measured& now);
  void confirm(const Measured& now);
  bool is_better(const Measured& now) const;
  void refused();
  void look_around();
  // Goes to the next number that differs from the one kept.
  void try_next();
  uint32_t candidate() const;
  void hold();
  void go_to(uint32_t flushes);

  const uint32_t least_, most_;
  uint32_t now_;
  Phase phase_ = Phase::kBase;
  // The search: what is best so far, and where it looks next.
  uint32_t kept_;
  Measured at_kept_;
  uint32_t step_ = 0;
  uint32_t better_ = 0;  // looked better than what is kept, which is measured again
  Measured at_better_;
  uint32_t reach_ = 0;  // of this step, which is longer where the one before made no difference
  bool up_ = true;
  bool turned_ = false;   // the other direction was tried with this step
  bool knows_ = false;    // it, or an earlier one, has looked around
  bool found_ = false;    // something better, in this search
  uint32_t windows_ = 0;  // to hold on for
  uint32_t held_ = 0;
  // The measurement: of whole groups, each as many flushes as there may be at the same time, so
  // that those that end together are counted together.
  struct Flushed {
    uint32_t flushes = 0;
    uint64_t bytes = 0;
    int64_t ns = 0;
  };
  Flushed counted_;                      // groups, of one busy time or several
  Flushed group_;                        // that is not whole yet; without its time
  uint32_t looks_ = 0, waits_seen_ = 0;  // calls of waited(), and the sum of what was told
  int64_t since_ns_ = 0;                 // the group
  uint32_t to_pass_ = 0;        // ends of flushes that do not count: they began with another number
  bool busy_ = false;           // a flush has ended for which another one took its place
  bool vain_ = true;            // no group since this busy time began
  uint32_t times_in_vain_ = 0;  // in a row
};

}  // namespace gpusnap
