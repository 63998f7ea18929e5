// SPDX-License-Identifier: Apache-2.0
// A file or folder that comes into being as a whole: it is written under another name beside its
// place, and gets its own name at the end. An output that was not finished is removed.
#pragma once

#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

class OutputTarget {
 public:
  enum class Kind { kFile, kFolder };

  // `replaces`: what is there already. Files of a folder are then replaced one by one, and its
  // other files stay.
  OutputTarget(FileSystem& files, std::string path, Kind kind, bool replaces);
  OutputTarget(const OutputTarget&) = delete;
  OutputTarget& operator=(const OutputTarget&) = delete;
  ~OutputTarget();

  const std::string& path() const { return path_; }
  // Fails where something is there and is not to be replaced.
  Status begin();
  // Where to write a file; of a folder, the one of that name in it.
  std::string begin_file(const std::string& name);
  // All files are written and synced.
  Status finish();

 private:
  std::string parent() const;
  Status finish_folder();

  FileSystem& files_;
  const std::string path_;
  const Kind kind_;
  const bool replaces_;
  std::string partial_;  // the other name; empty: there is nothing to remove
  bool is_there_ = false;
  std::vector<std::string> names_;  // of files that were begun and have not been moved away
};

}  // namespace gpusnap
