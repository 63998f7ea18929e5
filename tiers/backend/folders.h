// Folders on local tiers, which several parts share: the part that removes a folder's last file
// also removes the folders that are empty then.
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

// That folder, and so many above it in all, as long as nothing is in them.
inline void remove_empty_folders(FileSystem& files, std::string folder, int levels) {
  for (; levels > 0 && files.remove_folder(folder).ok(); --levels) {
    folder.resize(folder.rfind('/'));
  }
}

}  // namespace gpusnap
