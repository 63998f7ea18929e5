// Reads every byte of a checkpoint.
#pragma once

#include <string>

#include "tiers/file_system.h"
#include "tiers/store.h"

namespace gpusnap {

// `checkpoint` is complete, freshly listed.
Status verify_files(FileSystem& files, const std::string& job_folder,
                    const CheckpointInfo& checkpoint, const Progress& progress);

}  // namespace gpusnap
