// Makes the CheckpointWriter that Store::begin() gives out.
#pragma once

#include <memory>
#include <string>

#include "tiers/segment.h"
#include "tiers/store.h"

namespace gpusnap {

struct CheckpointPlace {
  std::string job_folder;       // with the store's
  std::string job_folder_name;  // alone
  std::string run;
  uint64_t epoch = 0;
  uint32_t rank = 0;
};

// `on_end` is called once by the writer's thread, before wait() returns: whether it was committed.
Result<std::unique_ptr<CheckpointWriter>> start_checkpoint_writer(
    FileSystem& files, const CheckpointPlace& place, StagingPool& pool, uint64_t segment_bytes,
    const Spawn& spawn, std::function<void(bool committed)> on_end);

}  // namespace gpusnap
