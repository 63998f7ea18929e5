// SPDX-License-Identifier: Apache-2.0
// Lists a job's folder: reads manifests and sizes, nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/store.h"

namespace gpusnap {

struct ListedCheckpoint {
  // One rank's manifest that is there. `problem`: with the manifest or its own segments; ok: none.
  struct Part {
    Status problem;
    uint64_t checksum = 0;  // of the manifest's body
    uint64_t bytes = 0;     // of the manifest and of the segments that it names
  };

  CheckpointInfo info;
  Status problem;                    // why it is damaged
  bool has_unread_manifest = false;  // one that may name anything
  std::map<uint32_t, Part> parts;    // by rank
};

// A rank's valid manifest, or null.
const Manifest* manifest_of(const ListedCheckpoint& checkpoint, uint32_t rank);
// The manifests of the ancestors of a listed manifest, the parent first, as far as they are there.
std::vector<const Manifest*> ancestors_of(const std::vector<ListedCheckpoint>& listed,
                                          const Manifest& manifest);

// Newest epoch first. `name` is the job's folder's. Nothing where there is no such folder.
Result<std::vector<ListedCheckpoint>> list_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name);

}  // namespace gpusnap
