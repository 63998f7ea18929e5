// SPDX-License-Identifier: Apache-2.0
// Notes on this node's SSD about the parts that the node has to protect. A note is made before the
// commit of its part is reported, and stays until the store does not have the part any more.
//
//   <ssd>/gpusnap-<uid>/levels/<XXH3 64 of the text>.part    the part's CheckpointText
#pragma once

#include <string>
#include <vector>

#include "tiers/backend/message.h"
#include "tiers/file_system.h"

namespace gpusnap::levels {

// Thread-safe.
class Notes {
 public:
  // In a folder of GPUSNAP_SSD. `files` outlives it.
  Notes(FileSystem& files, const std::string& ssd_folder);

  // Adds a note. Its bytes are durable at return, its name is not. Succeeds if it exists.
  Status add(const CheckpointText& part);
  void remove(const CheckpointText& part);
  // Returns all notes, without those that cannot be read.
  std::vector<CheckpointText> all() const;

 private:
  std::string path_of(const CheckpointText& part) const;

  FileSystem& files_;
  const std::string folder_;
};

}  // namespace gpusnap::levels
