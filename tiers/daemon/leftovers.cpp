// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/leftovers.h"

#include <algorithm>
#include <functional>
#include <set>

#include "tiers/backend/block_log.h"
#include "tiers/backend/chunk_cache.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

void for_each_entry(
    FileSystem& files, const std::string& folder, bool folders,
    const std::function<void(const std::string& path, const std::string& name)>& f) {
  const auto entries = files.entries(folder);
  if (!entries.ok()) return;
  for (const FolderEntry& entry : entries.value()) {
    if (entry.is_folder == folders) f(folder + "/" + entry.name, entry.name);
  }
}

// `folder`: of the log.
using TakeLog =
    std::function<void(const std::string& folder, const BlockLog& log, CheckpointText text)>;

// Passes each readable block log of one epoch's folder to `take`.
void take_logs(FileSystem& files, const std::string& folder, const TakeLog& take) {
  for_each_entry(files, folder, false, [&](const std::string& path, const std::string& name) {
    if (!parse_block_log_name(name)) return;
    BlockLog log;
    if (!read_block_log(files, path, log).ok()) return;
    if (auto text = parse_checkpoint(log.text); text.ok()) {
      take(folder, log, std::move(text.value()));
    }
  });
}

void for_each_log(FileSystem& files, const std::vector<SsdFolder>& ssd, const TakeLog& take) {
  const auto in_each = [&files](const auto& f) {
    return [&files, f](const std::string& folder, const std::string&) {
      for_each_entry(files, folder, true, f);
    };
  };
  const auto of_epoch = [&](const std::string& epoch, const std::string& name) {
    if (parse_epoch_folder(name)) take_logs(files, epoch, take);
  };
  const auto of_backend = in_each(in_each(in_each(of_epoch)));
  for (const SsdFolder& folder : ssd) {
    for_each_entry(files, user_folder(folder.path), true, of_backend);
  }
}

// A part's epoch has a folder on each device, at the same path below the device's root.
std::vector<std::string> on_each(const std::vector<SsdFolder>& ssd, const std::string& folder) {
  std::vector<std::string> folders;
  for (const SsdFolder& device : ssd) {
    const std::string root = user_folder(device.path);
    if (!folder.starts_with(root + "/")) continue;
    for (const SsdFolder& other : ssd) {
      folders.push_back(user_folder(other.path) + folder.substr(root.size()));
    }
  }
  return folders;
}

// Returns whether the store can be read and does not have the part's manifest.
bool has_gone(FileSystem& files, const CheckpointText& part) {
  if (!files.entries(part.store).ok()) return false;
  const std::string folder =
      part.store + "/" + sanitise_job(part.job) + "/" + epoch_folder(part.epoch);
  const auto entries = files.entries(folder);
  if (!entries.ok()) return entries.status().code() == Code::kNotFound;
  const std::string name = manifest_name(part.rank);
  return std::ranges::none_of(entries.value(),
                              [&](const FolderEntry& entry) { return entry.name == name; });
}

}  // namespace

std::vector<CheckpointText> leftovers_on(FileSystem& files, const std::vector<SsdFolder>& ssd) {
  std::vector<CheckpointText> found;
  for_each_log(files, ssd, [&](const auto&, const BlockLog& log, CheckpointText text) {
    if (!log.sealed || log.committed || is_in_store(files, text)) return;
    if (std::ranges::find(found, text) == found.end()) found.push_back(std::move(text));
  });
  return found;
}

void remove_stale_copies(FileSystem& files, const std::vector<SsdFolder>& ssd) {
  for_each_log(files, ssd, [&](const auto& folder, const BlockLog& log, const auto& text) {
    if (!log.committed || !has_gone(files, text)) return;
    (void)remove_local_files(files, on_each(ssd, folder), text.rank, text.run);
  });
}

std::map<std::string, uint64_t> space_on(
    FileSystem& files, const std::vector<SsdFolder>& ssd,
    const std::function<bool(const std::string& store)>& is_meant) {
  std::map<std::string, std::set<std::string>> folders;  // by job
  for_each_log(files, ssd, [&](const auto& folder, const BlockLog&, const auto& text) {
    if (!is_meant(text.store)) return;
    for (const std::string& each : on_each(ssd, folder)) {
      folders[sanitise_job(text.job)].insert(each);
    }
  });
  std::map<std::string, uint64_t> space;
  for (const auto& [job, of_job] : folders) {
    for (const std::string& folder : of_job) {
      const auto entries = files.entries(folder);
      if (!entries.ok()) continue;
      for (const FolderEntry& entry : entries.value()) space[job] += entry.size;
    }
  }
  return space;
}

bool is_in_store(FileSystem& files, const CheckpointText& part) {
  const std::string job = part.store + "/" + sanitise_job(part.job);
  const auto epochs = files.entries(job);
  if (!epochs.ok()) return false;
  const auto manifests = files.entries(job + "/" + epoch_folder(part.epoch));
  const std::string name = manifest_name(part.rank);
  if (manifests.ok() && std::ranges::any_of(manifests.value(), [&](const FolderEntry& entry) {
        return entry.name == name;
      })) {
    return true;
  }
  // The part was removed, and later parts of the rank exist.
  const bool is_there = std::ranges::any_of(epochs.value(), [&](const FolderEntry& entry) {
    return parse_epoch_folder(entry.name) == part.epoch;
  });
  return !is_there && std::ranges::any_of(epochs.value(), [&](const FolderEntry& entry) {
    return parse_epoch_folder(entry.name).value_or(0) > part.epoch;
  });
}

}  // namespace gpusnap
