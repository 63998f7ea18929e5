// SPDX-License-Identifier: Apache-2.0
#include "tiers/segment_files.h"

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/names.h"

namespace gpusnap {

Result<SegmentStore::Place> SegmentFiles::take(uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (open_.empty() || open_.back()->next(bytes) + bytes > most_) {
    if (Status opened = open(); !opened.ok()) return opened;
  }
  return SegmentStore::Place{open_.back(), open_.back()->take(bytes)};
}

Status SegmentFiles::finish() {
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < open_.size(); ++i) {
    if (Status synced = open_[i]->file().sync(); !synced.ok()) return synced;
    refs_[i].size = open_[i]->end();
  }
  open_.clear();
  return {};
}

Status SegmentFiles::sync() {
  std::vector<std::shared_ptr<PlacedFile>> open;
  {
    const MutexLock lock(mutex_);
    open = open_;
  }
  for (const auto& file : open) {
    if (Status synced = file->file().sync(); !synced.ok()) return synced;
  }
  return {};
}

void SegmentFiles::remove() {
  const MutexLock lock(mutex_);
  open_.clear();
  for (const SegmentRef& ref : refs_) (void)files_.remove(folder_ + "/" + ref.file);
  refs_.clear();
}

Status SegmentFiles::open() {
  const auto number = first_ + static_cast<uint32_t>(open_.size());
  const std::string name = segment_name({identity_.rank, identity_.run, number});
  // The first block may come before anybody has made it.
  if (Status made = files_.make_folder(folder_); !made.ok()) return made;
  auto file = files_.create_bulk(folder_ + "/" + name, kRoomAhead);
  if (!file.ok()) return file.status();
  refs_.push_back({name, 0});
  open_.push_back(std::make_shared<PlacedFile>(
      std::move(file.value()), number,
      SegmentHeader{identity_.epoch, identity_.rank, number, checksum(identity_.job_folder_name),
                    checksum(identity_.run)}));
  return {};
}

}  // namespace gpusnap
