#include "tools/cli/job_in_store.h"

#include <algorithm>

#include "tiers/manifest_file.h"
#include "tiers/names.h"

namespace gpusnap {
namespace {

// Older ones say nothing that matters now.
constexpr size_t kMostEpochs = 64;
// Most bytes of a manifest that is read for its host alone.
constexpr uint64_t kMostManifest = 4 << 20;

Result<std::vector<uint64_t>> newest_epochs(FileSystem& files, const std::string& job_folder) {
  const auto entries = files.entries(job_folder);
  if (!entries.ok()) return entries.status();
  std::vector<uint64_t> epochs;
  for (const FolderEntry& entry : entries.value()) {
    const auto epoch = parse_epoch_folder(entry.name);
    if (entry.is_folder && epoch) epochs.push_back(*epoch);
  }
  std::ranges::sort(epochs, std::greater());
  if (epochs.size() > kMostEpochs) epochs.resize(kMostEpochs);
  return epochs;
}

// Whether all ranks' manifests are there.
bool take_epoch(const std::vector<FolderEntry>& entries, uint64_t epoch, uint32_t ranks,
                JobInStore& job) {
  uint32_t there = 0;
  int64_t last = 0;
  for (const FolderEntry& entry : entries) {
    const auto rank = parse_manifest_name(entry.name);
    if (!rank || entry.is_folder || *rank >= ranks) continue;
    ++there;
    last = std::max(last, entry.modified_unix_ns);
    // An entry that is there already is newer.
    job.ranks.try_emplace(*rank, JobInStore::Rank{epoch, entry.modified_unix_ns, entry.size, ""});
  }
  if (there < ranks) return false;
  job.complete = epoch;
  job.complete_unix_ns = last;
  return true;
}

}  // namespace

std::vector<uint32_t> JobInStore::behind(uint32_t count) const {
  uint64_t furthest = 0;
  for (const auto& [rank, place] : ranks) furthest = std::max(furthest, place.epoch);
  std::vector<uint32_t> behind;
  for (uint32_t rank = 0; rank < count && furthest > 0; ++rank) {
    const auto found = ranks.find(rank);
    if (found == ranks.end() || found->second.epoch < furthest) behind.push_back(rank);
  }
  return behind;
}

Result<JobInStore> look_into_job(FileSystem& files, const std::string& job_folder, uint32_t ranks) {
  const auto epochs = newest_epochs(files, job_folder);
  if (!epochs.ok()) return epochs.status();
  JobInStore job;
  for (const uint64_t epoch : epochs.value()) {
    const auto entries = files.entries(job_folder + "/" + epoch_folder(epoch));
    // One that was pruned meanwhile.
    if (!entries.ok()) continue;
    if (take_epoch(entries.value(), epoch, ranks, job)) break;
  }
  return job;
}

void read_hosts(FileSystem& files, const std::string& job_folder,
                const std::vector<uint32_t>& ranks, const std::function<bool()>& goes_on,
                JobInStore& job) {
  const std::string name = job_folder.substr(job_folder.rfind('/') + 1);
  for (const uint32_t rank : ranks) {
    if (!goes_on()) return;
    const auto found = job.ranks.find(rank);
    if (found == job.ranks.end() || found->second.bytes > kMostManifest) continue;
    const auto read = read_manifest(files, job_folder, name, found->second.epoch, rank);
    if (!read.ok()) continue;
    found->second.host = read->manifest.host;
    found->second.time_unix_ns = read->manifest.cut_unix_ns;
  }
}

}  // namespace gpusnap
