// What is in a job's folder: reads manifests and sizes, nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/store.h"

namespace gpusnap {

struct ListedCheckpoint {
  CheckpointInfo info;
  Status problem;                    // why it is damaged
  bool has_unread_manifest = false;  // one that may name anything
};

// Newest epoch first. `name` is the job's folder's. Nothing where there is no such folder.
Result<std::vector<ListedCheckpoint>> list_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name);

}  // namespace gpusnap
