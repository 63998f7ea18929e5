// SPDX-License-Identifier: Apache-2.0
//
// Functions that libgpusnap-veloc calls: a program that writes checkpoints by itself and looks for
// them has to find in a replay what it had found, and not what it has written since.

#include "interpose/nondeterminism/opened_files.h"
#include "interpose/nondeterminism/value_log.h"

// `found`: what the calling thread has found out. The result: the same, which is noted, or in a
// replay what was noted at this place.
extern "C" [[gnu::visibility("default"), gnu::used]] int64_t gpusnap_same_as_recorded(
    int64_t found) {
  using namespace gpusnap::nondeterminism;
  const Own own(Source::kHistory);
  if (!own) return found;
  int64_t recorded = 0;
  if (restored() && own->take(recorded)) return recorded;
  own->add(found);
  return found;
}

// Files below this folder, an absolute path, are the program's own checkpoints and no input. False:
// there is no room for another folder.
extern "C" [[gnu::visibility("default"), gnu::used]] bool gpusnap_history_folder(
    const char* folder) {
  return gpusnap::pass_over_folder(folder);
}
