// SPDX-License-Identifier: Apache-2.0
// Manifests as files of a store.
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
  uint64_t checksum = 0;  // of its body: what a child names its parent by
};

// Reads the manifest of that place and checks that it belongs there. `job` is the job's folder's
// name. kNotFound where there is none; all other messages name the file.
Result<StoredManifest> read_manifest(FileSystem& files, const std::string& job_folder,
                                     const std::string& job, uint64_t epoch, uint32_t rank);

// A job's folder, as the names in it have it.
struct JobPlace {
  std::string folder;       // with the store's
  std::string folder_name;  // alone
};

// Reads the ancestors of chain[0], the parent first, down to a full one, and checks the links. If
// an ancestor was merged, reads the manifest that replaced it.
Status read_chain(FileSystem& files, const JobPlace& job, std::vector<Manifest>& chain);

// Names the parent in `manifest`, that of a part which the store does not have yet, as the store
// has it now, and counts the ancestors: one may have been merged since the cut. A full one stays as
// it is.
Status link_to_parent(FileSystem& files, const JobPlace& job, Manifest& manifest);

}  // namespace gpusnap
