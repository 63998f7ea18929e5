// SPDX-License-Identifier: Apache-2.0
// Reads manifests from a store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

struct StoredManifest {
  Manifest manifest;
  uint64_t checksum = 0;  // of its body; a child names its parent by it
};

// Reads the manifest of that epoch and rank and checks that it belongs there. `job`: the name of
// the job's folder. Returns kNotFound if there is none; all other messages name the file.
Result<StoredManifest> read_manifest(FileSystem& files, const std::string& job_folder,
                                     const std::string& job, uint64_t epoch, uint32_t rank);

// A job's folder.
struct JobPlace {
  std::string folder;       // path, with the store's folder
  std::string folder_name;  // its name alone
};

// Appends the ancestors of chain[0], the parent first, down to a full checkpoint, and checks the
// links. If an ancestor was merged, reads the manifest that replaced it.
Status read_chain(FileSystem& files, const JobPlace& job, std::vector<Manifest>& chain);

// Sets the parent's checksum and the number of ancestors in `manifest`, of a part that the store
// does not have yet, to what the store has now: an ancestor may have been merged since the cut.
// Does not change a full checkpoint's manifest.
Status link_to_parent(FileSystem& files, const JobPlace& job, Manifest& manifest);

}  // namespace gpusnap
