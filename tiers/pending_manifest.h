// SPDX-License-Identifier: Apache-2.0
// Writes a manifest into its folder: under a temporary name first, so that a file with the final
// name is always complete.
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
  // `run`: makes the temporary name unique.
  PendingManifest(FileSystem& files, std::string folder, uint32_t rank, const std::string& run);

  // Writes and syncs the file under the temporary name.
  Status write(std::span<const std::byte> bytes);
  // Renames it to the final name, durably. Fails if a file with that name exists.
  Status publish();
  // As publish(), but replaces an existing file.
  Status replace();

  // Undoes a failed step. Returns whether it is certain that no file with the final name is this
  // one, even after a crash.
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
