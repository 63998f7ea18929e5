// SPDX-License-Identifier: Apache-2.0
#include "interpose/services/caught_signals.h"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "interpose/services/log.h"

namespace gpusnap {
namespace {

constinit std::atomic<CaughtSignals*> installed{nullptr};

}  // namespace

void CaughtSignals::begin(const Schedule& every) {
  uint64_t signals = every.stop_signals;
  if (every.signal != 0) signals |= signal_bit(every.signal);
  if (signals == 0) return;
  caught_.reserve(static_cast<size_t>(std::popcount(signals)));
  installed.store(this, std::memory_order_release);
  for (; signals != 0; signals &= signals - 1) {
    const int number = std::countr_zero(signals) + 1;
    install(number, (every.stop_signals & signal_bit(number)) != 0);
  }
}

void CaughtSignals::install(int number, bool stops) {
  // Before ours is there: the handler reads it.
  Caught& caught = caught_.emplace_back(Caught{.number = number, .stops = stops});
  sigaction(number, nullptr, &caught.program);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, &action, nullptr) == 0) return;
  const int error = errno;
  caught_.pop_back();
  log(LogLevel::kWarn, "signal ", number, " cannot be used (", strerrordesc_np(error), ")");
}

void CaughtSignals::on_signal(int number, siginfo_t* info, void* context) {
  CaughtSignals* const signals = installed.load(std::memory_order_acquire);
  if (signals == nullptr) return;
  // Without a look at the end, which install() may be moving: the signal's own element is there.
  const Caught* caught = signals->caught_.data();
  while (caught->number != number) ++caught;
  const int error = errno;
  signals->tell_(signals->whose_, caught->stops);
  errno = error;
  if (caught->stops) return;
  const struct sigaction& program = caught->program;
  if ((program.sa_flags & SA_SIGINFO) != 0) {
    if (program.sa_sigaction != nullptr) program.sa_sigaction(number, info, context);
  } else if (program.sa_handler != SIG_DFL && program.sa_handler != SIG_IGN) {
    program.sa_handler(number);
  }
}

void CaughtSignals::give_back() noexcept {
  if (caught_.empty()) return;
  for (const Caught& caught : caught_) {
    struct sigaction current = {};
    // A handler that the program has put there since is the program's.
    if (sigaction(caught.number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
        current.sa_sigaction == on_signal) {
      sigaction(caught.number, &caught.program, nullptr);
    }
  }
  installed.store(nullptr, std::memory_order_release);
}

}  // namespace gpusnap
