// SPDX-License-Identifier: Apache-2.0
//
// Files on local devices with bytes that a restore has read ahead. They have no names: the system
// removes them when they are closed, also after a SIGKILL.
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
    BulkFile* file = nullptr;  // valid as long as the AheadFiles
    uint64_t offset = 0;
  };

  void add(std::unique_ptr<BulkFile> file, uint64_t room) {
    files_.push_back({std::move(file), 0, room});
  }
  // Returns the most bytes that take() can reserve in one place.
  uint64_t room() const {
    const auto file = roomiest();
    return file == files_.end() ? 0 : file->room - file->used;
  }
  // Reserves a place on the device with the most room, so that several devices share the load.
  std::optional<Place> take(uint64_t bytes);
  // Stops taking places in that file. Its bytes may still be read.
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
