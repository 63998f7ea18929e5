// SPDX-License-Identifier: Apache-2.0
//
// The session as MPI calls see it (process.h says when they use it): cuts at collectives, the
// journal of outcomes, and the device memory that they send and receive.
//
// By the program's thread that makes MPI calls, which holds no lock, but for what says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "interpose/mpi/outcomes.h"
#include "interpose/services/ranks.h"
#include "tiers/status.h"

namespace gpusnap::mpi {

struct Ballot;
class CutBarriers;

class CutControl {
 public:
  CutControl() = default;
  CutControl(const CutControl&) = delete;
  CutControl& operator=(const CutControl&) = delete;
  virtual ~CutControl() = default;

  // ---- cuts
  // This rank's ballot for a cut now.
  virtual Ballot cast_ballot() = 0;
  // The collective that begins is one at which a checkpoint is due.
  virtual void make_due_by_count() = 0;
  // Acts on the greatest ballot of all ranks.
  virtual void apply_agreement(const Ballot& agreed) = 0;
  // All ranks make a cut as they have agreed, at this collective, and meet within it where any of
  // them has shared memory. False: none has come into the journal.
  virtual bool cut_at_collective(const char* name, uint64_t number, const Ballot& agreed,
                                 CutBarriers& cut_barriers) = 0;
  // The recording made a cut at this collective: in a replay waits until the others have come
  // there. `last`: it is the checkpoint's own, and the session goes live; where ranks share memory
  // they meet when it has been loaded.
  virtual void replay_cut_at_collective(const char* name, bool last, CutBarriers& cut_barriers) = 0;
  // A call that the recording did not make before the cut: waits until the session is live.
  virtual void await_live(const char* name) = 0;

  // ---- outcomes
  // False: there is no session yet. Any thread.
  virtual bool append_outcome(std::string_view name, uint64_t number,
                              std::span<const int32_t> values, uint64_t count) = 0;
  // The outcomes of the checkpoint that is to be restored, and its epoch; 0 where there is none.
  virtual Result<std::unique_ptr<OutcomeReader>> open_outcomes(uint64_t& epoch) = 0;

  // ---- memory
  // Whether it is memory of the program's that is the device's alone, and matters: not where no
  // more checkpoints are taken.
  virtual bool is_device_memory(const void* address) const = 0;
  // Whether any of these bytes is such memory.
  virtual bool holds_device_memory(const void* address, uint64_t bytes) = 0;
  // Whether it is host memory that the device sees, too.
  virtual bool is_seen_by_device(const void* address) const = 0;
  virtual Status read_device(const void* from, std::span<std::byte> to) = 0;
  // Behind about_to_write.
  virtual Status write_device(void* to, std::span<const std::byte> from) = 0;
  // Others than the program's calls are about to write there: a snapshot gets what it needs of it.
  virtual void about_to_write(const void* address, uint64_t bytes) = 0;

  // ---- the program
  // The program did what cannot be repeated. Any thread.
  virtual void refuse_call(const char* what) = 0;
  // MPI_Init has been called: which rank this is.
  virtual void initialised(const Ranks& ranks) = 0;
};

// The session's, whether there is one yet or not.
CutControl& cut_control();

}  // namespace gpusnap::mpi
