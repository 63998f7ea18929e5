// Folders on local tiers, in which several parts come and go: whoever takes its last file away
// takes the folders that are empty then.
#pragma once

#include <string>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

// What `make` gives, which makes a file of that path: with its folder, which may go between the one
// and the other.
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
