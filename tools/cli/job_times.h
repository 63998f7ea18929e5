// SPDX-License-Identifier: Apache-2.0
// When what happened to a job's checkpoints, as far as its store tells: input of `gpusnap trace`
// and `gpusnap report`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/store.h"

namespace gpusnap {

// One rank's part of a checkpoint.
struct PartTimes {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::string run;
  std::string host;
  int64_t cut_unix_ns = 0;
  // While the program was held at the cut.
  int64_t held_from_unix_ns = 0;
  int64_t held_to_unix_ns = 0;
  Waits waits;  // after that
  // When its manifest got its name. 0: not known, as of a part that was merged since, or that is
  // not in the store.
  int64_t durable_unix_ns = 0;
  uint64_t bytes = 0;         // of device memory
  uint64_t own_bytes = 0;     // of those, in its own segments
  uint64_t stored_bytes = 0;  // of its own segments
  uint64_t parent = 0;        // 0: full
  uint64_t launches = 0;      // that the program had made
};

// One process of a job, as far as its checkpoints and its journal tell.
struct RunTimes {
  std::string run;
  std::string host;
  uint32_t rank = 0;
  int64_t first_unix_ns = 0;  // of its first cut that is known
  int64_t last_unix_ns = 0;   // when it last wrote
};

struct JobTimes {
  std::string job;
  std::vector<PartTimes> parts;  // in the order of their cuts
  std::vector<RunTimes> runs;    // likewise

  bool is_empty() const { return parts.empty(); }
};

PartTimes times_of(const Manifest& manifest, int64_t manifest_written_unix_ns);

// `id`: a checkpoint's, a job's, or empty for all jobs. Checkpoints that a program wrote by itself
// are left out. kNotFound where there is nothing to tell of.
Result<std::vector<JobTimes>> read_times(FileSystem& files, Store& store, const std::string& id);

// `checkpoints`: of one job.
JobTimes times_of_job(FileSystem& files, const Store& store, const std::string& job,
                      const std::vector<CheckpointInfo>& checkpoints);

}  // namespace gpusnap
