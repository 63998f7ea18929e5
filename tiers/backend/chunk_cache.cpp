// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/chunk_cache.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/names.h"

namespace gpusnap {

Status remove_local_files(FileSystem& files, const std::vector<std::string>& folders, uint32_t rank,
                          const std::string& run) {
  const auto remove = [&](const std::string& folder, auto parse) {
    bool any = false;
    const auto entries = files.entries(folder);
    if (!entries.ok()) return any;
    for (const FolderEntry& entry : entries.value()) {
      const std::optional<SegmentName> name = parse(entry.name);
      if (entry.is_folder || !name || name->rank != rank || name->run != run) continue;
      any = true;
      (void)files.remove(folder + "/" + entry.name);
    }
    return any;
  };
  for (const std::string& folder : folders) {
    if (!remove(folder, parse_block_log_name)) continue;
    Status gone = files.sync_folder(folder);
    if (!gone.ok() && gone.code() != Code::kNotFound) return gone;
  }
  for (const std::string& folder : folders) (void)remove(folder, parse_chunk_name);
  constexpr int kLevels = 3;  // the epoch's, the job's and the store's
  for (const std::string& folder : folders) remove_empty_folders(files, folder, kLevels);
  return {};
}

void ChunkCache::add_tier(const std::string& root, uint64_t capacity, uint64_t chunk_bytes) {
  const MutexLock lock(mutex_);
  tiers_.push_back({root, capacity, chunk_bytes, 0, 0});
}

void ChunkCache::begin(const std::string& path) {
  const MutexLock lock(mutex_);
  const auto index = tier_of(path);
  if (!index) return;
  Tier& tier = tiers_[*index];
  ++tier.begun;
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    if (tier.begun * tier.chunk_bytes + tier.copies <= tier.capacity) return;
    copy = copy->tier == *index ? remove(copy) : std::next(copy);
  }
}

void ChunkCache::end(const std::string& path) {
  const MutexLock lock(mutex_);
  if (const auto tier = tier_of(path)) --tiers_[*tier].begun;
}

void ChunkCache::keep(const ChunkOwner& owner, const std::vector<std::string>& folders,
                      const std::string& path, uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto tier = tier_of(path);
  if (!tier) return;
  --tiers_[*tier].begun;
  add(owner, folders, {owner, *tier, path, bytes});
}

void ChunkCache::commit(const ChunkOwner& owner, const std::vector<std::string>& folders) {
  const MutexLock lock(mutex_);
  PartCopies& part = parts_[owner];
  part.folders = folders;
  part.committed = true;
  end_if_empty(owner);
}

void ChunkCache::adopt(const ChunkOwner& owner, const std::vector<std::string>& folders,
                       const std::string& path, uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto tier = tier_of(path);
  if (!tier) return;
  add(owner, folders, {owner, *tier, path, bytes});
  parts_[owner].committed = true;
}

void ChunkCache::drop(const ChunkOwner& owner) {
  const MutexLock lock(mutex_);
  drop_locked(owner);
}

void ChunkCache::drop_pruned(const std::string& job_folder) {
  const MutexLock lock(mutex_);
  const auto is_of_job = [&](const auto& part) { return part.first.job_folder == job_folder; };
  if (std::ranges::none_of(parts_, is_of_job)) return;
  const auto entries = files_.entries(job_folder);
  if (!entries.ok()) return;
  std::set<uint64_t> there;
  for (const FolderEntry& entry : entries.value()) {
    if (const auto epoch = parse_epoch_folder(entry.name)) there.insert(*epoch);
  }
  std::vector<ChunkOwner> gone;
  for (const auto& [owner, part] : parts_) {
    if (owner.job_folder == job_folder && part.committed && there.count(owner.epoch) == 0) {
      gone.push_back(owner);
    }
  }
  for (const ChunkOwner& owner : gone) drop_locked(owner);
}

void ChunkCache::make_room(const std::string& path) {
  const MutexLock lock(mutex_);
  const auto tier = tier_of(path);
  for (auto copy = copies_.begin(); tier && copy != copies_.end();) {
    copy = copy->tier == *tier ? remove(copy) : std::next(copy);
  }
}

uint64_t ChunkCache::bytes() const {
  const MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const Tier& tier : tiers_) bytes += tier.copies;
  return bytes;
}

std::optional<size_t> ChunkCache::tier_of(const std::string& path) const {
  for (size_t i = 0; i < tiers_.size(); ++i) {
    if (path.starts_with(tiers_[i].root + "/")) return i;
  }
  return std::nullopt;
}

void ChunkCache::add(const ChunkOwner& owner, const std::vector<std::string>& folders, Copy copy) {
  PartCopies& part = parts_[owner];
  part.folders = folders;
  ++part.copies;
  tiers_[copy.tier].copies += copy.bytes;
  copies_.push_back(std::move(copy));
}

// Gives the next one.
std::list<ChunkCache::Copy>::iterator ChunkCache::remove(std::list<Copy>::iterator copy) {
  (void)files_.remove(copy->path);
  tiers_[copy->tier].copies -= copy->bytes;
  const ChunkOwner owner = copy->owner;
  const auto next = copies_.erase(copy);
  --parts_[owner].copies;
  end_if_empty(owner);
  return next;
}

// Its logs are still needed while it is on its way.
void ChunkCache::end_if_empty(const ChunkOwner& owner) {
  const auto part = parts_.find(owner);
  if (part->second.copies > 0 || !part->second.committed) return;
  (void)remove_local_files(files_, part->second.folders, owner.rank, owner.run);
  parts_.erase(part);
}

void ChunkCache::drop_locked(const ChunkOwner& owner) {
  const auto part = parts_.find(owner);
  if (part == parts_.end()) return;
  const std::vector<std::string> folders = part->second.folders;
  parts_.erase(part);
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    if (copy->owner != owner) {
      ++copy;
      continue;
    }
    tiers_[copy->tier].copies -= copy->bytes;
    copy = copies_.erase(copy);
  }
  (void)remove_local_files(files_, folders, owner.rank, owner.run);
}

}  // namespace gpusnap
