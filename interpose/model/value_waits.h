// SPDX-License-Identifier: Apache-2.0
//
// Waits of the program's streams for a word in memory (cuStreamWaitValue32 and its kin). The one
// who writes the word may be a later call, or the host: a cut that let the device run empty first
// would wait for it in vain.
//
// Not thread-safe: the caller holds the session's lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include "interpose/model/contexts.h"

namespace gpusnap {

class ValueWaits {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // However much is queued, no more waits are kept: while the first one lasts, a cut is put off.
  static constexpr size_t kMost = 64;

  // Both outlive it.
  ValueWaits(const Driver& driver, Contexts& contexts) : driver_(driver), contexts_(contexts) {}

  // `mark` is recorded after a wait, in the current context. It goes back to the contexts once the
  // wait is over.
  void add(CUevent mark);
  void forget_context(CUcontext context);

  // Whether a cut has to wait for the program's next calls. After `longest` of that it has not,
  // once: then the attempt to drain the device tells what is wrong.
  bool puts_off_cut(Time now, std::chrono::nanoseconds longest);

 private:
  struct Wait {
    CUcontext context = nullptr;
    CUevent mark = nullptr;
  };
  bool forget_if_over(const Wait& wait);

  const Driver& driver_;
  Contexts& contexts_;
  std::deque<Wait> waits_;  // the oldest first
  std::optional<Time> put_off_since_;
};

}  // namespace gpusnap
