// SPDX-License-Identifier: Apache-2.0
// Lists a job's folder. Reads manifests and sizes of files, nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/store.h"

namespace gpusnap {

struct ListedCheckpoint {
  // An existing manifest of one rank. `problem`: of the manifest or its own segments; ok: none.
  struct Part {
    Status problem;
    uint64_t checksum = 0;  // of the manifest's body
    uint64_t bytes = 0;     // of the manifest and of the segments that it names
  };

  CheckpointInfo info;
  Status problem;                    // the reason if it is damaged
  bool has_unread_manifest = false;  // a manifest could not be read and may name any file
  std::map<uint32_t, Part> parts;    // by rank
};

// Returns a rank's valid manifest, or null.
const Manifest* manifest_of(const ListedCheckpoint& checkpoint, uint32_t rank);
// Returns the existing manifests of the ancestors of a listed manifest, the parent first.
std::vector<const Manifest*> ancestors_of(const std::vector<ListedCheckpoint>& listed,
                                          const Manifest& manifest);

// Returns the checkpoints, newest epoch first. `name`: of the job's folder. Empty if there is no
// such folder.
Result<std::vector<ListedCheckpoint>> list_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name);

}  // namespace gpusnap
