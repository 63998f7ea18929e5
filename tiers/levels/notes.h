// SPDX-License-Identifier: Apache-2.0
// The parts that this node has to see to, on its SSD: noted before anybody is told that they are
// committed, and until the store does not have them any more.
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

  // Durable at return, but for its name. Ok where it is noted already.
  Status add(const CheckpointText& part);
  void remove(const CheckpointText& part);
  // Notes that cannot be read are left out.
  std::vector<CheckpointText> all() const;

 private:
  std::string path_of(const CheckpointText& part) const;

  FileSystem& files_;
  const std::string folder_;
};

}  // namespace gpusnap::levels
