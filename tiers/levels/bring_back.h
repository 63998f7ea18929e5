// SPDX-License-Identifier: Apache-2.0
// Restores a checkpoint that the store has lost from the shards on the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tiers/levels/copies.h"
#include "tiers/store.h"

namespace gpusnap::levels {

struct BringBackRequest {
  std::string job;                // the job's name
  std::optional<uint64_t> epoch;  // empty: the newest recoverable one
  // Called with lines for the user about the progress.
  std::function<void(const std::string&)> tell;
};
// Puts back the missing files of that checkpoint and its ancestors, if the store does not have it
// complete. Without an epoch: of the newest one that is newer than all complete ones in the store.
// Returns whether anything was put back. Returns kBusy if a process writes to the job, kInvalid if
// a checkpoint of another run has a needed epoch.
Result<bool> bring_back(FileSystem& files, const Nodes& nodes, Store& store,
                        const BringBackRequest& request);

}  // namespace gpusnap::levels
