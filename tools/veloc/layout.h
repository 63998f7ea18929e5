// SPDX-License-Identifier: Apache-2.0
//
// The regions of a checkpoint of a history, and where their bytes lie in a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpusnap::veloc {

// Protected memory, or a file that the program wrote for the checkpoint.
struct Region {
  int id = 0;        // the program's number of it, if it is memory
  std::string file;  // the file's name; empty: it is memory
  uint64_t bytes = 0;
};

// Regions of memory lie in a cache one after the other, in this order. Files are in no cache.
class Layout {
 public:
  // Each begins at a multiple of that many bytes, which is what device copies like.
  static constexpr uint64_t kAlignment = 256;

  void add(Region region) {
    offsets_.push_back(end_);
    if (region.file.empty()) end_ += (region.bytes + kAlignment - 1) / kAlignment * kAlignment;
    regions_.push_back(std::move(region));
  }
  const std::vector<Region>& regions() const { return regions_; }
  uint64_t offset(size_t region) const { return offsets_[region]; }  // bytes
  // That a copy takes in a cache; at least 1.
  uint64_t bytes() const { return end_ == 0 ? 1 : end_; }

  std::optional<size_t> find(int id) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (regions_[i].file.empty() && regions_[i].id == id) return i;
    }
    return std::nullopt;
  }
  std::optional<size_t> find(const std::string& file) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (regions_[i].file == file) return i;
    }
    return std::nullopt;
  }

 private:
  std::vector<Region> regions_;
  std::vector<uint64_t> offsets_;
  uint64_t end_ = 0;
};

}  // namespace gpusnap::veloc
