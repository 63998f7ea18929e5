// SPDX-License-Identifier: Apache-2.0
// The names in a folder. The C library's opendir takes memory from the heap of the program that we
// are loaded into: what the program finds in its own memory would depend on how often we look.
#pragma once

#include <dirent.h>

#include <array>
#include <cstddef>
#include <string>

#include "tiers/io/system_call.h"

namespace gpusnap {

class FolderNames {
 public:
  // Where the folder cannot be opened there is no name, and error() says why.
  explicit FolderNames(const std::string& folder);

  // The next name, in the order of the file system and without "." and "..", until the next call.
  // Null after the last one, and where the folder cannot be read.
  const char* next();
  // Returns the system's error; 0: none.
  int error() const { return error_; }
  // Returns the folder's descriptor, for calls that take a name in it.
  int descriptor() const { return folder_.get(); }

 private:
  bool fill();

  Descriptor folder_;
  int error_;
  alignas(dirent64) std::array<std::byte, 8 << 10> entries_;  // as the system gave them
  size_t filled_ = 0;
  size_t at_ = 0;
};

}  // namespace gpusnap
