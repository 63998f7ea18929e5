// SPDX-License-Identifier: Apache-2.0
// Lists the names in a folder. The C library's opendir allocates from the heap of the program,
// whose addresses would then depend on how often gpusnap lists folders.
#pragma once

#include <dirent.h>

#include <array>
#include <cstddef>
#include <string>

#include "tiers/io/system_call.h"

namespace gpusnap {

class FolderNames {
 public:
  // If the folder cannot be opened, there are no names, and error() says why.
  explicit FolderNames(const std::string& folder);

  // Returns the next name, in the order of the file system and without "." and "..". It is valid
  // until the next call. Null after the last name, and if the folder cannot be read.
  const char* next();
  // Returns the system's error; 0: none.
  int error() const { return error_; }
  // Returns the folder's descriptor, for calls that take a name in it.
  int descriptor() const { return folder_.get(); }

 private:
  bool fill();

  Descriptor folder_;
  int error_;
  alignas(dirent64) std::array<std::byte, 8 << 10> entries_;  // from the system
  size_t filled_ = 0;
  size_t at_ = 0;
};

}  // namespace gpusnap
