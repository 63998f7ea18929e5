// SPDX-License-Identifier: Apache-2.0
//
// The signals that make a checkpoint due: GPUSNAP_EVERY=signal:USR1 and GPUSNAP_STOP_SIGNAL.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): struct sigaction

#include <vector>

#include "interpose/services/settings.h"

namespace gpusnap {

// One at a time in a process: the handler has to find it.
class CaughtSignals {
 public:
  // Called in the handler. `stops`: the program is to end after the checkpoint.
  using Tell = void (*)(void* whose, bool stops) noexcept;
  CaughtSignals(Tell tell, void* whose) : tell_(tell), whose_(whose) {}
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  // Installs the handler, which goes on to the program's own handler, unless the signal stops the
  // program. A signal that cannot be had is said in a line and left out. Once.
  void begin(const Schedule& every);
  // Async-signal-safe.
  void give_back() noexcept;

 private:
  struct Caught {
    int number = 0;
    bool stops = false;
    struct sigaction program = {};  // what the signal did before us
  };

  static void on_signal(int number, siginfo_t* info, void* context);
  void install(int number, bool stops);

  const Tell tell_;
  void* const whose_;
  // The handler looks for its signal here while others are added: no element moves.
  std::vector<Caught> caught_;
};

}  // namespace gpusnap
