// SPDX-License-Identifier: Apache-2.0
// Reads ranges of a checkpoint and writes them to files, as their bytes come: memory is bounded,
// whatever the ranges' sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/part_reader.h"
#include "tiers/store.h"
#include "tools/cli/array_file.h"
#include "tools/cli/output_target.h"

namespace gpusnap {

class Extraction {
 public:
  // All objects that it refers to outlive it. `goes_on`: asked now and then.
  Extraction(Store& store, const CheckpointInfo& checkpoint, FileSystem& files,
             OutputTarget& target, std::vector<ArrayFile>& outputs, Progress progress,
             std::function<bool()> goes_on);

  // The first failure.
  Status run();
  // It was of the output, not of the checkpoint.
  bool has_output_failed() const { return output_failed_; }

 private:
  // Where an array goes.
  struct Place {
    size_t file = 0;   // in outputs_
    size_t array = 0;  // in that file
    const ExtractedArray* of = nullptr;
  };
  // A file that is being written.
  struct Open {
    std::unique_ptr<BulkFile> file;
    size_t left = 0;  // arrays that have not been written
  };

  Status output(Status status);
  Status extract_rank(uint32_t rank, std::span<const Place> places);
  std::vector<PlacedExtent> wanted_of(const std::vector<PlacedExtent>& pieces) const;
  Status extract_some(const Contents& wanted, std::span<const Place> places);
  Status open(size_t file);
  Status close(size_t file);
  Status take(std::span<const ReadPiece> pieces, std::span<const std::byte> bytes);

  Store& store_;
  const CheckpointInfo& checkpoint_;
  FileSystem& files_;
  OutputTarget& target_;
  std::vector<ArrayFile>& outputs_;
  const Progress progress_;
  const std::function<bool()> goes_on_;
  PlainReadBuffers buffers_;
  std::map<size_t, Open> open_;           // by file
  std::vector<std::optional<Place>> of_;  // by number of the range, of the rank that is being read
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  bool output_failed_ = false;
};

}  // namespace gpusnap
