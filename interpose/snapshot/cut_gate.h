// SPDX-License-Identifier: Apache-2.0
//
// When a cut may be made: a decision over facts, without a lock, a clock or a driver. A checkpoint
// that is due and may not be taken stays due.
#pragma once

#include <cstdint>

#include "interpose/mpi/coordination.h"

namespace gpusnap {

// The facts at the moment at which a cut is asked for.
struct CutFacts {
  bool has_context = false;   // before the first one there is nothing to save
  bool in_doubt = false;      // the program has got what cannot be followed
  bool busy = false;          // the checkpoint before is on its way: of checkpoints there is one
  bool request_open = false;  // an MPI request that a cut would split
  bool reloading = false;     // device memory has still to be put back
  bool replaying = false;
  bool capturing = false;  // nothing can be waited for without ending the capture
};

class CutGate {
 public:
  // `coordinated`: one of several ranks, whose cuts are made at MPI collectives alone, by all of
  // them. `blocking`: the program is held until a checkpoint is done, so it is held for the one
  // before, too.
  void set_rules(bool coordinated, bool blocking) {
    coordinated_ = coordinated;
    blocking_ = blocking;
  }
  bool is_coordinated() const { return coordinated_; }

  // There is, or was, memory that other processes share: from now on this rank's cuts are made in
  // step with the others'.
  void note_sharing() { shares_ = true; }
  bool shares() const { return shares_; }

  // Whether this process may make a cut by itself, before a call or at its end. Captures are looked
  // at when admission is closed.
  bool may_cut_alone(const CutFacts& facts) const {
    return !coordinated_ && !facts.reloading && !facts.request_open && facts.has_context &&
           !facts.in_doubt && (blocking_ || !facts.busy);
  }
  // The reason for which this rank cannot take part in a cut of all ranks now: of several, the one
  // that lasts longest.
  mpi::Unready unready(const CutFacts& facts) const {
    using enum mpi::Unready;
    if (facts.replaying || facts.reloading) return kReplaying;
    if (facts.request_open) return kRequest;
    if (facts.capturing) return kCapture;
    return facts.busy && !blocking_ ? kBusy : kReady;
  }
  // All ranks make a cut, in step where `in_step`: the others do not know what this rank has shared
  // since its ballot.
  bool may_cut_with_others(bool in_step) const { return in_step || !shares_; }

 private:
  bool coordinated_ = false;
  bool blocking_ = false;
  bool shares_ = false;
};

}  // namespace gpusnap
