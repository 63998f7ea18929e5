// SPDX-License-Identifier: Apache-2.0
#include "tiers/pending_manifest.h"

#include <memory>
#include <utility>

#include "tiers/names.h"

namespace gpusnap {

PendingManifest::PendingManifest(FileSystem& files, std::string folder, uint32_t rank,
                                 const std::string& run)
    : files_(files),
      folder_(std::move(folder)),
      temporary_(folder_ + "/" + temporary_manifest_name(rank, run)),
      name_(folder_ + "/" + manifest_name(rank)) {}

Status PendingManifest::write(std::span<const std::byte> bytes) {
  Result<std::unique_ptr<WritableFile>> file = files_.create(temporary_);
  if (!file.ok()) return file.status();
  stage_ = Stage::kTemporary;
  if (Status written = file.value()->append(bytes); !written.ok()) return written;
  return file.value()->sync();
}

Status PendingManifest::publish() {
  stage_ = Stage::kNaming;
  if (Status renamed = files_.rename(temporary_, name_); !renamed.ok()) return renamed;
  stage_ = Stage::kPublished;
  return files_.sync_folder(folder_);
}

Status PendingManifest::replace() {
  stage_ = Stage::kNaming;
  if (Status replaced = files_.replace(temporary_, name_); !replaced.ok()) return replaced;
  stage_ = Stage::kReplaced;
  return files_.sync_folder(folder_);
}

bool PendingManifest::take_back() {
  switch (stage_) {
    case Stage::kNothing:
      return true;
    case Stage::kTemporary:
      (void)files_.remove(temporary_);
      return true;
    case Stage::kNaming:
      // Where the temporary name cannot be removed it may have become the manifest's after all.
      return files_.remove(temporary_).ok();
    case Stage::kPublished:
      return files_.remove(name_).ok() && files_.sync_folder(folder_).ok();
    case Stage::kReplaced:
      break;  // what was there before has gone
  }
  return false;
}

}  // namespace gpusnap
