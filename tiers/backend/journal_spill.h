// SPDX-License-Identifier: Apache-2.0
//
// Slots of a journal that wait on a local tier for a store that does not answer, so that they keep
// no memory: a file of records. A record is in its file before its slot is released. So a backend
// that takes over finds each slot in the staging area, in the journal's file, or here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

// A slot, and where its bytes lie.
struct SpilledSlot {
  uint64_t sequence = 0;
  uint64_t offset = 0;  // in the journal's file
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // of the bytes
  uint64_t place = 0;     // of the bytes in the spill's file
  bool operator==(const SpilledSlot&) const = default;
};

// Used by one thread.
class SpillWriter {
 public:
  // `path`: of a file that does not exist; it is made with the first slot.
  SpillWriter(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  // The slot is in the file when this returns ok. After an error nothing more goes there.
  Result<SpilledSlot> append(uint64_t sequence, uint64_t offset, std::span<const std::byte> bytes);
  // How long the file would be with another slot of so many bytes.
  uint64_t size_with(uint64_t bytes) const;

 private:
  Status open();

  FileSystem& files_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;
  uint64_t size_ = 0;
  Status status_;
};

// All whole records of a file, which may end within one: there its writer died.
Result<std::vector<SpilledSlot>> find_spilled(FileSystem& files, const std::string& path);
// The slot's bytes. kDamaged if they are not those that were written.
Result<std::vector<std::byte>> read_spilled(FileSystem& files, const std::string& path,
                                            const SpilledSlot& slot);

}  // namespace gpusnap
