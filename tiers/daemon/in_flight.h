// SPDX-License-Identifier: Apache-2.0
// Parts and journals that programs of this node have handed over, or are handing over, and that are
// not durable yet, as an observer sees them that is neither a client nor the server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/backend/message.h"
#include "tiers/staging/memory.h"

namespace gpusnap {

// One life of a stream.
struct StreamLife {
  uint32_t stream = 0;
  uint32_t life = 0;
};

struct InFlight {
  struct Part {
    StreamLife stream;
    CheckpointText text;
    bool sealed = false;      // all slots were handed over: the program is not needed any more
    bool held = false;        // sealed, and all slots outlive the node's memory
    bool kept = false;        // it stays in memory, where it is whole
    bool is_running = false;  // whether its program runs
  };
  struct Journal {
    StreamLife stream;
    JournalText text;
    bool grows = true;  // its program runs and may add to it
  };
  std::vector<Part> parts;
  std::vector<Journal> journals;
};

// Returns approximately what is in flight at this moment. Leaves out streams with an invalid text,
// which the server refuses.
InFlight look_at(StagingMemory& memory);

enum class Fate {
  kPending,
  kDurable,  // reported by the server; the program has not read the outcome yet
  kFailed,   // reported by the server; the program has not read the outcome yet
  kGone,     // the stream has ended, and its outcome is not there any more
};
// `why`: the reason of a failure.
Fate fate_of(StagingMemory& memory, const StreamLife& stream, std::string& why);

}  // namespace gpusnap
