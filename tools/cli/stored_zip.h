// SPDX-License-Identifier: Apache-2.0
// A ZIP archive whose files are stored as they are, so that their places are known before their
// bytes are. Sizes have 64 bits (ZIP64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpusnap {

// CRC-32 of a file whose pieces come in any order, each byte once.
class PieceCrc {
 public:
  explicit PieceCrc(uint64_t total) : total_(total) {}
  void add(uint64_t offset, std::span<const std::byte> bytes);
  uint32_t value() const { return crc_; }

 private:
  const uint64_t total_;
  uint32_t crc_ = 0;
};

class StoredZip {
 public:
  // Where the bytes of this file begin.
  uint64_t add(std::string name, uint64_t bytes);
  uint64_t directory_at() const { return end_; }  // behind all files
  // The header right before the file's bytes. `crc`: of these.
  std::vector<std::byte> local_header(size_t file, uint32_t crc) const;
  // `crcs`: of all files.
  std::vector<std::byte> directory(std::span<const uint32_t> crcs) const;

 private:
  struct File {
    std::string name;
    uint64_t bytes = 0;
    uint64_t at = 0;  // of its local header
  };
  std::vector<File> files_;
  uint64_t end_ = 0;
};

}  // namespace gpusnap
