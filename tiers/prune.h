// SPDX-License-Identifier: Apache-2.0
// Removes files of a job that are no longer needed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

struct PruneRequest {
  std::string job_folder;
  std::string job_folder_name;
  uint32_t keep = 1;
  // Returns whether this process is writing that epoch.
  std::function<bool(uint64_t epoch)> is_being_written;
  // Returns whether the run of this process made that epoch. It tells journals of the live run that
  // no manifest names yet from left-over ones: a complete checkpoint of the live run names all
  // journals that the run writes. Called once, after the journals were listed and before anything
  // is removed. Returns false if another run may have begun by then.
  std::function<bool(uint64_t epoch)> is_of_this_run;
  // Set if no process of the job runs: a file that no complete checkpoint needs is left over if it
  // was not written since then (ns since 1970).
  std::optional<int64_t> left_since_unix_ns;
  bool dry_run = false;  // only reports what would be removed
};

// The caller holds the job's lock, except for a dry run. Continues after an error and returns the
// first. Appends what was removed to `items`, which may be null.
Status prune_job(FileSystem& files, const PruneRequest& request,
                 std::vector<PrunedItem>* items = nullptr);

}  // namespace gpusnap
