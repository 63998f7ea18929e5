// SPDX-License-Identifier: Apache-2.0
// Reads every byte of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/part_reader.h"
#include "tiers/store.h"

namespace gpusnap {

// `checkpoint`: complete, and just listed. `ancestors`: the manifests of the ancestors of all
// ranks.
Status verify_files(FileSystem& files, const std::string& job_folder,
                    const CheckpointInfo& checkpoint, const std::vector<const Manifest*>& ancestors,
                    const Progress& progress, VerifyRound& round, const PartReaderOptions& options);

}  // namespace gpusnap
