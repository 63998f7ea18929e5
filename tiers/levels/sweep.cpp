// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/sweep.h"

#include <algorithm>
#include <tuple>

#include "tiers/manifest_file.h"
#include "tiers/names.h"

namespace gpusnap::levels {

Result<StoredParts> parts_in_store(FileSystem& files, const std::string& job_folder,
                                   const std::string& job) {
  StoredParts stored;
  const auto epochs = files.entries(job_folder);
  if (epochs.status().code() == Code::kNotFound) return stored;
  if (!epochs.ok()) return epochs.status();
  for (const FolderEntry& folder : epochs.value()) {
    const auto epoch = parse_epoch_folder(folder.name);
    if (!folder.is_folder || !epoch) continue;
    const auto entries = files.entries(job_folder + "/" + folder.name);
    if (entries.status().code() == Code::kNotFound) continue;
    if (!entries.ok()) return entries.status();
    for (const FolderEntry& entry : entries.value()) {
      const auto rank = parse_manifest_name(entry.name);
      if (!rank) continue;
      const auto read = read_manifest(files, job_folder, job, *epoch, *rank);
      if (read.status().code() == Code::kNotFound) continue;
      if (!read.ok()) return read.status();
      stored.emplace(*epoch, *rank, read->manifest.run);
    }
  }
  return stored;
}

std::vector<PartId> superfluous(const std::vector<PartCopies>& parts, const StoredParts& stored,
                                uint64_t keep) {
  std::vector<PartId> found;
  if (keep == 0) return found;
  const auto is_stored = [&](const PartCopies& each) {
    const PartId& part = each.about.part;
    return stored.contains({part.epoch, part.rank, part.run});
  };
  for (const PartCopies& each : parts) {
    if (is_stored(each)) continue;
    std::set<std::pair<uint64_t, std::string>> successors;
    for (const PartCopies& other : parts) {
      const bool succeeds = other.about.part.rank == each.about.part.rank && is_stored(other) &&
                            other.is_whole() && other.about.cut_unix_ns > each.about.cut_unix_ns;
      if (succeeds) successors.emplace(other.about.part.epoch, other.about.part.run);
    }
    if (successors.size() >= keep) found.push_back(each.about.part);
  }
  // A part is nothing without its ancestors, which are older.
  std::ranges::stable_sort(found, std::greater(), &PartId::epoch);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace gpusnap::levels
