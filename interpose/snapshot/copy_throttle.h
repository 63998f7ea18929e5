// How the background copying of one context gives way to what the program itself copies to the
// host, where both have the same engine: a copy of the program's waits for the one whose turn it
// is, so it should find a short one, or none.
#pragma once

#include <cstdint>

#include "interpose/hook/driver.h"
#include "interpose/record/program_copies.h"

namespace gpusnap {

// Time of the device since what was on a stream of ours had passed. One thread, the context
// current.
class Stopwatch {
 public:
  explicit Stopwatch(const Driver& driver) : driver_(driver) {}
  // From when what is on the stream now has passed.
  void start(CUstream stream);
  // Whether more than `milliseconds` have passed; to be asked again and again. Where the driver
  // does not tell, they have.
  bool passed(CUstream stream, float milliseconds);

 private:
  const Driver& driver_;
  CUevent from_ = nullptr, now_ = nullptr;  // they live as long as the context
  bool asked_ = false;                      // now_ has been recorded
};

// For one snapshot, on the offloader's thread.
class CopyThrottle {
 public:
  CopyThrottle(const ProgramCopies& copies, Stopwatch& watch);

  // Whether to start nothing now, since a copy of the program's is on its way. Not for ever: once
  // the engine had nothing from `stream`, the background's, for a while of the device's time, the
  // background goes on until one of them has arrived.
  bool stands_back(CUstream stream);
  // Bytes of the next copy, and how many may be on their way at once. After a copy of the program's
  // a short one, then one of twice as many bytes each time, as long as there is none; more than one
  // at once later still.
  uint64_t bytes() const { return bytes_; }
  size_t flights() const;
  // One has been started.
  void started();

 private:
  void be_careful();

  const ProgramCopies& copies_;
  Stopwatch& watch_;
  uint64_t bytes_;
  size_t quiet_ = 0;  // copies since the last of the program's
  uint64_t passed_;   // when the last copy was started
  bool waiting_ = false;
  bool impatient_ = false;  // until the number of those that have arrived changes
  uint64_t passed_when_impatient_ = 0;
};

}  // namespace gpusnap
