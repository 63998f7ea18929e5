// SPDX-License-Identifier: Apache-2.0
// A manifest on its way into its folder: under a temporary name first, so that its own never stands
// for a part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

// Used by one thread at a time.
class PendingManifest {
 public:
  // `run`: tells its temporary name from those of others.
  PendingManifest(FileSystem& files, std::string folder, uint32_t rank, const std::string& run);

  // Writes and syncs it.
  Status write(std::span<const std::byte> bytes);
  // Gives it its name, durably; fails where there is one already.
  Status publish();
  // As publish(), in place of the one that is there.
  Status replace();

  // After a failure at any step: whether it is certain that the name does not stand for it, also
  // after a crash.
  bool take_back();

 private:
  enum class Stage { kNothing, kTemporary, kNaming, kPublished, kReplaced };

  FileSystem& files_;
  const std::string folder_;
  const std::string temporary_;
  const std::string name_;
  Stage stage_ = Stage::kNothing;
};

}  // namespace gpusnap
