// Removes what is no longer needed of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

struct PruneRequest {
  std::string job_folder;
  std::string job_folder_name;
  uint32_t keep = 1;
  // Whether this process is writing that epoch.
  std::function<bool(uint64_t epoch)> is_being_written;
  // Whether that epoch was made by the run that this process belongs to. Journals of the live run
  // that no manifest names yet are told from left-over ones by this: a complete checkpoint of the
  // live run names all that the live run writes.
  std::function<bool(uint64_t epoch)> is_of_this_run;
};

// The caller holds the job's lock. Goes on after an error and gives the first.
Status prune_job(FileSystem& files, const PruneRequest& request);

}  // namespace gpusnap
