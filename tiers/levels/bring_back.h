// SPDX-License-Identifier: Apache-2.0
// A checkpoint that the store has lost comes back from the shards on the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tiers/levels/copies.h"
#include "tiers/store.h"

namespace gpusnap::levels {

struct BringBackRequest {
  std::string job;                // as a user says it
  std::optional<uint64_t> epoch;  // none: the newest that can be had
  // A line for the user, now and then.
  std::function<void(const std::string&)> tell;
};
// Puts back what is missing of that checkpoint, and of its ancestors, where the store does not have
// it complete: without an epoch, of one that is newer than all that the store has complete. Whether
// anything was. kBusy where a process writes to the job; kInvalid where another run's checkpoint
// has a number that is needed. Ok where there is nothing to put back.
Result<bool> bring_back(FileSystem& files, const Nodes& nodes, Store& store,
                        const BringBackRequest& request);

}  // namespace gpusnap::levels
