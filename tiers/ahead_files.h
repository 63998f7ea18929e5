// SPDX-License-Identifier: Apache-2.0
//
// Files on local devices that hold what a restore has read ahead of its need. They have no names:
// the system takes them away when they are closed, also by a SIGKILL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap {

// Not thread-safe. The destructor waits for transfers.
class AheadFiles {
 public:
  struct Place {
    BulkFile* file = nullptr;  // lives as long as this
    uint64_t offset = 0;
  };

  void add(std::unique_ptr<BulkFile> file, uint64_t room) {
    files_.push_back({std::move(file), 0, room});
  }
  // Bytes that can be had in one place.
  uint64_t room() const {
    const auto file = roomiest();
    return file == files_.end() ? 0 : file->room - file->used;
  }
  // On the device with the most room, so that several share the load.
  std::optional<Place> take(uint64_t bytes);
  // The file takes nothing more; what it holds may be read.
  void fail(const BulkFile* file);

 private:
  struct File {
    std::unique_ptr<BulkFile> file;
    uint64_t used = 0;  // bytes, whole pages
    uint64_t room = 0;
  };
  std::vector<File>::const_iterator roomiest() const;

  std::vector<File> files_;
};

}  // namespace gpusnap
