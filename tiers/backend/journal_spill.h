// SPDX-License-Identifier: Apache-2.0
//
// A spill: a file of records on a local tier that holds slots of a journal while the store does not
// answer, so that they take no memory. A record is in its file before its slot is released. A
// backend that takes over therefore finds each slot in the staging area, in the journal's file or
// in a spill.
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
  // `path`: of a file that does not exist. The first slot creates it.
  SpillWriter(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  // The slot is in the file when this returns ok. After an error all further calls fail.
  Result<SpilledSlot> append(uint64_t sequence, uint64_t offset, std::span<const std::byte> bytes);
  // Returns the file's size in bytes with one more slot of that size.
  uint64_t size_with(uint64_t bytes) const;

 private:
  Status open();

  FileSystem& files_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;
  uint64_t size_ = 0;
  Status status_;
};

// Returns all complete records of a file. Its writer may have died within the last one.
Result<std::vector<SpilledSlot>> find_spilled(FileSystem& files, const std::string& path);
// Returns the slot's bytes, or kDamaged if their checksum is wrong.
Result<std::vector<std::byte>> read_spilled(FileSystem& files, const std::string& path,
                                            const SpilledSlot& slot);

}  // namespace gpusnap
