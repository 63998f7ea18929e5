// SPDX-License-Identifier: Apache-2.0
//
// Finds the number of concurrent flushes with which the external store is fastest (the elastic
// flushes of the VeloC paper, section IV.C, which leaves the number open). Some stores are fastest
// with one file at a time, others with dozens.
//
// It climbs. While more flushes raise the total throughput by more than 5 %, it continues in steps
// that double, so that a store that scales is followed to its limit. If they do not, it tries fewer
// flushes, and then smaller steps. If two numbers are equally good, it takes the lower. A better
// number is taken only if it is also better than the old number measured once more, since others
// use the store, too. A number with which programs wait longer for their own files is not taken,
// and a lower number is taken if programs wait less with it. A number that the available chunks
// cannot keep busy is not taken. It keeps the number that it has found and searches again from time
// to time.
//
// No clock: its caller passes times. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "tiers/placement/tier_settings.h"

namespace gpusnap {

inline constexpr uint32_t kFirstFlushes = 4;

class FlushControl {
 public:
  // The number is between `least` and `most`, and fixed if these are equal. `known`: the best
  // number for an earlier backend with this store, with which it begins and stays for a while. 0:
  // not known.
  FlushControl(uint32_t least, uint32_t most, uint32_t known = 0);

  uint32_t flushes() const { return now_; }
  // Returns whether it looks for the best number.
  bool adapts() const { return least_ != most_; }
  // The best number so far. 0: none was measured, or it does not adapt.
  uint32_t best() const { return knows_ ? kept_ : 0; }
  // A flush of that many bytes has ended. `more`: another flush takes its place. If none does, the
  // store gets less than it could take, and the flush says nothing about it.
  void ended(int64_t now_ns, uint64_t bytes, bool more);
  // Sets the number of threads of programs that wait for a device now. To be called regularly while
  // there are flushes. With too few calls for a measurement, waits are ignored.
  void waited(uint32_t threads);
  // A flush has failed or was abandoned.
  void interrupted() { pause(); }

 private:
  enum class Phase { kBase, kCandidate, kAgain, kHold };

  void pause();
  void clear_measurement();
  struct Measured {
    double rate = 0;              // bytes per nanosecond
    std::optional<double> waits;  // threads of programs that waited for a device, on average
  };
  void measured(const Measured& now);
  void judge(const Measured& now);
  void confirm(const Measured& now);
  bool is_better(const Measured& now) const;
  void refused();
  void look_around();
  // Takes the next number that differs from the best one.
  void try_next();
  uint32_t candidate() const;
  void hold();
  void go_to(uint32_t flushes);

  const uint32_t least_, most_;
  uint32_t now_;
  Phase phase_ = Phase::kBase;
  // The search: the best number so far, and the next one to try.
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
