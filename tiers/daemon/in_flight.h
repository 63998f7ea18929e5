// Parts and journals that programs of this node have handed over, or are handing over, and that are
// not durable yet: seen from outside, by neither a client nor the server.
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
    bool sealed = false;      // all of it is there, and needs its program no more
    bool held = false;        // and all of it outlives the node's memory
    bool kept = false;        // it stays in memory, where it is whole
    bool is_running = false;  // its program
  };
  struct Journal {
    StreamLife stream;
    JournalText text;
    bool grows = true;  // its program runs and may add to it
  };
  std::vector<Part> parts;
  std::vector<Journal> journals;
};

// Returns approximately what is in flight at this moment. Leaves out what makes no sense: the
// server refuses it.
InFlight look_at(StagingMemory& memory);

enum class Fate {
  kPending,
  kDurable,  // the server says so, and the program has not heard it yet
  kFailed,   // likewise
  kGone,     // nobody is left who would be told
};
// `why`: where it failed.
Fate fate_of(StagingMemory& memory, const StreamLife& stream, std::string& why);

}  // namespace gpusnap
