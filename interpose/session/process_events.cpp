// SPDX-License-Identifier: Apache-2.0
//
// Events of the process as a whole: it begins to use CUDA, forks, gets functions that are not
// hooked, or ends (hook/activation.h).

#include "interpose/hook/activation.h"
#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/opened_files.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/replay/replay_output.h"
#include "interpose/session/session.h"

namespace gpusnap {

bool session_start(const Guard&) {
  if (Session::start()) return true;
  // There is no replay.
  show_output();
  stop_noting_opened();
  nondeterminism::stop_noting();
  // Other ranks may share memory with it, by handles that the driver does not know.
  return mpi::ranks().ranks > 1 && SharedMemory::of_process() != nullptr;
}

void session_abandon_after_fork() {
  Session::abandon_after_fork();
  stop_noting_opened();
  nondeterminism::stop();
}

void session_lost_sight(const char* name) {
  Session::lose_sight(name);
}

namespace {
// The program has ended, but for the destructors of what was loaded before us.
[[gnu::destructor]] void session_end() {
  nondeterminism::stop_in_this_thread();
  Session::finish();
}
}  // namespace

}  // namespace gpusnap
