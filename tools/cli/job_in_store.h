// How far a job's ranks have come in its store, by the names of files alone: for a glance that has
// to be quick. Whether they can be used is for `gpusnap list` and `verify` to find out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap {

struct JobInStore {
  struct Rank {
    uint64_t epoch = 0;        // the newest of which its manifest is there
    int64_t time_unix_ns = 0;  // of that file; of the cut, where the manifest was read
    uint64_t bytes = 0;        // of that file
    std::string host;          // where the manifest was read
  };
  // The newest epoch of which every rank's manifest is there; 0: none.
  uint64_t complete = 0;
  int64_t complete_unix_ns = 0;  // of its last manifest
  std::map<uint32_t, Rank> ranks;

  // Ranks whose newest epoch is not that of the others that have come the furthest.
  std::vector<uint32_t> behind(uint32_t count) const;
};

// kNotFound where the job has no folder yet.
Result<JobInStore> look_into_job(FileSystem& files, const std::string& job_folder, uint32_t ranks);

// Reads the newest manifest of each of these ranks, for its host, as long as `goes_on` says so.
// Passes over large manifests.
void read_hosts(FileSystem& files, const std::string& job_folder,
                const std::vector<uint32_t>& ranks, const std::function<bool()>& goes_on,
                JobInStore& job);

}  // namespace gpusnap
