// SPDX-License-Identifier: Apache-2.0
// Removes what is no longer needed of a job.
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
  // Whether this process is writing that epoch.
  std::function<bool(uint64_t epoch)> is_being_written;
  // Whether that epoch was made by the run that this process belongs to. Journals of the live run
  // that no manifest names yet are told from left-over ones by this: a complete checkpoint of the
  // live run names all that the live run writes. Asked once, after the journals were listed and
  // before anything is removed: no where another run may have begun by then.
  std::function<bool(uint64_t epoch)> is_of_this_run;
  // Where no process of the job lives: what no complete checkpoint needs is left over if nobody has
  // written to it since then (ns since 1970).
  std::optional<int64_t> left_since_unix_ns;
  bool dry_run = false;  // only says what would go
};

// The caller holds the job's lock, but for a dry run. Goes on after an error and gives the first.
// Adds what went to `items`, which may be null.
Status prune_job(FileSystem& files, const PruneRequest& request,
                 std::vector<PrunedItem>* items = nullptr);

}  // namespace gpusnap
