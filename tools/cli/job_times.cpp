// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/job_times.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tiers/names.h"
#include "tools/cli/store_access.h"

namespace gpusnap {
namespace {

using WrittenTimes = std::map<std::string, int64_t>;

// When each file of the folder was last written to. A folder that is gone has none.
WrittenTimes written_times(FileSystem& files, const std::string& folder) {
  WrittenTimes times;
  const auto entries = files.entries(folder);
  if (!entries.ok()) return times;
  for (const FolderEntry& entry : entries.value()) times[entry.name] = entry.modified_unix_ns;
  return times;
}

int64_t time_in(const WrittenTimes& times, const std::string& name) {
  const auto found = times.find(name);
  return found == times.end() ? 0 : found->second;
}

// A program that is held makes no call and waits for nothing meanwhile. One that made no call by
// chance cannot be told from it; its stall is shown later by its own length.
bool was_held_to_the_end(const Manifest& manifest) {
  return manifest.meanwhile == CallCounts() && manifest.waits == Waits();
}

void take_runs(const WrittenTimes& journals, JobTimes& job) {
  std::map<std::pair<std::string, uint32_t>, RunTimes> runs;
  for (const PartTimes& part : job.parts) {
    const auto [found, is_new] = runs.try_emplace({part.run, part.rank});
    RunTimes& run = found->second;
    if (is_new) {
      run = {part.run, part.host, part.rank, part.held_from_unix_ns, 0};
      run.last_unix_ns =
          time_in(journals, part.run + "-r" + std::to_string(part.rank) + ".journal");
    }
    run.first_unix_ns = std::min(run.first_unix_ns, part.held_from_unix_ns);
    run.last_unix_ns =
        std::max({run.last_unix_ns, part.held_to_unix_ns, part.cut_unix_ns, part.durable_unix_ns});
  }
  for (auto& [key, run] : runs) job.runs.push_back(std::move(run));
  std::ranges::sort(job.runs, {}, [](const RunTimes& run) {
    return std::tuple(run.first_unix_ns, run.rank, run.run);
  });
}

// By job.
Result<std::map<std::string, std::vector<CheckpointInfo>>> checkpoints_of(Store& store,
                                                                          const std::string& id) {
  std::vector<CheckpointInfo> all;
  if (id.find('@') != std::string::npos) {
    Result<CheckpointInfo> found = store.find(id);
    if (!found.ok()) return found.status();
    all.push_back(std::move(found.value()));
  } else {
    Result<std::vector<CheckpointInfo>> listed = store.list(id);
    if (!listed.ok()) return listed.status();
    all = std::move(listed.value());
  }
  std::map<std::string, std::vector<CheckpointInfo>> by_job;
  for (CheckpointInfo& checkpoint : all) {
    by_job[checkpoint.job].push_back(std::move(checkpoint));
  }
  return by_job;
}

}  // namespace

PartTimes times_of(const Manifest& manifest, int64_t manifest_written_unix_ns) {
  PartTimes part;
  part.epoch = manifest.epoch;
  part.rank = manifest.rank;
  part.run = manifest.run;
  part.host = manifest.host;
  part.cut_unix_ns = manifest.cut_unix_ns;
  // In hostile bytes the waits may be longer than the stall, and the stall longer than time.
  const uint64_t cut_ns = manifest.stall_ns - std::min(manifest.stall_ns, manifest.waits.all_ns());
  const auto held_ns = static_cast<int64_t>(std::min<uint64_t>(cut_ns, INT64_MAX / 4));
  part.held_from_unix_ns = std::clamp<int64_t>(manifest.cut_unix_ns, 0, INT64_MAX / 2);
  if (!was_held_to_the_end(manifest)) part.held_from_unix_ns -= held_ns;
  part.held_to_unix_ns = part.held_from_unix_ns + held_ns;
  part.waits = manifest.waits;
  const bool is_its_own = manifest.replaces == 0;
  // Clocks of two machines may differ.
  if (is_its_own && manifest_written_unix_ns >= manifest.cut_unix_ns) {
    part.durable_unix_ns = manifest_written_unix_ns;
  }
  part.bytes = manifest.bytes();
  part.own_bytes = manifest.own_bytes();
  for (const SegmentRef& segment : manifest.segments) part.stored_bytes += segment.size;
  part.parent = manifest.parent;
  part.launches = manifest.launches;
  return part;
}

JobTimes times_of_job(FileSystem& files, const Store& store, const std::string& job,
                      const std::vector<CheckpointInfo>& checkpoints) {
  JobTimes times;
  times.job = job;
  const std::string folder = store.job_folder(job);
  for (const CheckpointInfo& checkpoint : checkpoints) {
    const WrittenTimes written =
        written_times(files, folder + "/" + epoch_folder(checkpoint.epoch));
    for (const Manifest& manifest : checkpoint.ranks) {
      if (manifest.by_program()) continue;
      times.parts.push_back(times_of(manifest, time_in(written, manifest_name(manifest.rank))));
    }
  }
  std::ranges::sort(times.parts, {}, [](const PartTimes& part) {
    return std::tuple(part.cut_unix_ns, part.epoch, part.rank);
  });
  take_runs(written_times(files, folder), times);
  return times;
}

Result<std::vector<JobTimes>> read_times(FileSystem& files, Store& store, const std::string& id) {
  const auto by_job = checkpoints_of(store, id);
  if (!by_job.ok()) return by_job.status();
  std::vector<JobTimes> jobs;
  for (const auto& [job, checkpoints] : by_job.value()) {
    JobTimes times = times_of_job(files, store, job, checkpoints);
    if (!times.is_empty()) jobs.push_back(std::move(times));
  }
  if (!jobs.empty()) return jobs;
  return no_checkpoints(store, id);
}

}  // namespace gpusnap
