// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/interruption.h"

namespace gpusnap {
namespace {

volatile std::sig_atomic_t signal_that_came = 0;

void note(int signal) {
  signal_that_came = signal;
}

}  // namespace

Interruption::Interruption() {
  signal_that_came = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;  // as under nohup
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() {
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  if (came()) (void)std::raise(signal_that_came);
}

bool Interruption::came() const {
  return signal_that_came != 0;
}

}  // namespace gpusnap
