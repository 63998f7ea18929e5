// SPDX-License-Identifier: Apache-2.0
// Folders on local tiers that several parts share. The part that removes the last file of a folder
// also removes the folders that are empty after that.
#pragma once

#include <string>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

// Calls `make`, which makes a file of that path, and returns its result. Makes the file's folder if
// it is missing, and tries again if the folder has gone before the file was made.
template <class Make>
auto in_folder_of(FileSystem& files, const std::string& path, Make make) -> decltype(make()) {
  constexpr int kMostTries = 64;
  auto made = make();
  for (int tries = 0; tries < kMostTries && made.status().code() == Code::kNotFound; ++tries) {
    const Status folder = files.make_folder(path.substr(0, path.rfind('/')));
    if (!folder.ok() && folder.code() != Code::kNotFound) return folder;
    made = make();
  }
  return made;
}

// Removes the folder and folders above it, `levels` in all, as long as they are empty.
inline void remove_empty_folders(FileSystem& files, std::string folder, int levels) {
  for (; levels > 0 && files.remove_folder(folder).ok(); --levels) {
    folder.resize(folder.rfind('/'));
  }
}

}  // namespace gpusnap
