// A program's readings of clocks and random bytes (value_log.h), in checkpoints and out of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/manifest.h"

namespace gpusnap::nondeterminism {

// All that has been read so far.
std::vector<SavedReading> readings();

// The checkpoint whose readings this process is given; 0: none.
uint64_t given_epoch();
// For a replay that has come to another end: what of it was not repeated; null: nothing is known.
const char* doubt();

}  // namespace gpusnap::nondeterminism
