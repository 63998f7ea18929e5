// SPDX-License-Identifier: Apache-2.0
// Files of arrays: where the data of each array go, and the bytes around them.
//
//   .npy          a header and the data of one array:
//   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html .npz          a ZIP
//   archive of .npy files .safetensors  the length of a JSON header, that header, and the data of
//   all arrays .raw          the data of one array, and nothing else
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/array_plan.h"
#include "tools/cli/stored_zip.h"

namespace gpusnap {

enum class ArrayFormat { kRaw, kNpy, kNpz, kSafetensors };

std::optional<ArrayFormat> find_array_format(std::string_view name);  // "raw", "npy", ...
const char* name_of(ArrayFormat format);
// All arrays are in one file, whatever their number.
bool holds_several(ArrayFormat format);
// kInvalid where the format has no such type.
Status check_type(ArrayFormat format, const ElementType& type);

std::string npy_header(const ElementType& type, const std::vector<uint64_t>& shape);

// One file. Its source data outlives it.
class ArrayFile {
 public:
  // `id`: of the checkpoint.
  ArrayFile(ArrayFormat format, const std::string& id, std::vector<const ExtractedArray*> arrays);

  const std::vector<const ExtractedArray*>& arrays() const { return arrays_; }
  std::string name() const;  // within a folder
  uint64_t bytes() const;    // of the file, but for a ZIP archive's directory
  uint64_t at(size_t array) const { return at_[array]; }  // where its data begin

  // Data that have been written. `offset`: bytes from the array's start.
  void note(size_t array, uint64_t offset, std::span<const std::byte> bytes);

  struct Part {
    uint64_t at = 0;
    std::vector<std::byte> bytes;
  };
  // All that is no data. Once all data have been noted.
  std::vector<Part> frame() const;

 private:
  void lay_out_archive();
  void lay_out_tensors(const std::string& id);

  const ArrayFormat format_;
  const std::vector<const ExtractedArray*> arrays_;
  std::vector<uint64_t> at_;
  uint64_t end_ = 0;
  std::vector<std::string> headers_;  // of each array; of safetensors one for all
  StoredZip zip_;
  std::vector<PieceCrc> crcs_;
};

}  // namespace gpusnap
