// The store that the looking commands look into.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tiers/store.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {

// As the option or GPUSNAP_PFS says, else ./gpusnap. `create`: the folder, where it is not there.
Result<std::unique_ptr<Store>> open_store(const std::string& option, bool create = false);
// How long nobody has written to a file that a dead run has left over.
inline constexpr std::chrono::hours kLeftAfter{1};
// Returns the request of `gpusnap prune`. `keep`: 0 for what GPUSNAP_KEEP says.
IdlePrune idle_prune(uint32_t keep, std::chrono::nanoseconds left_after);
// As Store::find(), of one that can be read: it is complete.
Result<CheckpointInfo> find_complete(Store& store, const std::string& id);
// kNotFound: there are none. `job`: of that one; empty: of any.
Status no_checkpoints(const Store& store, const std::string& job);
// Writes the failure's line; the exit code for it.
int fail(const Status& status);

}  // namespace gpusnap
