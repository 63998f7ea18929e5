// SPDX-License-Identifier: Apache-2.0
// Commits one rank's part of a checkpoint: writes its manifest in the steps of docs/file-format.md.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/pending_manifest.h"
#include "tiers/status.h"

namespace gpusnap {

struct CheckpointPlace {
  std::string job_folder;       // path, with the store's folder
  std::string job_folder_name;  // its name alone
  std::string run;
  uint64_t epoch = 0;
  uint32_t rank = 0;

  std::string epoch_folder_path() const;
};

// The status of a part whose epoch another run has taken: two runs may take the same epoch as long
// as neither can see the other's part.
Status taken_by_another_run(const std::string& epoch_folder);

// Used by one thread at a time.
class Commit {
 public:
  Commit(FileSystem& files, CheckpointPlace place);

  // Makes the folder.
  Status start() { return files_.make_folder(folder_); }
  enum class Existing : uint8_t {
    kRefuse,
    kReplace,  // in one step
  };
  // Writes the manifest. The segments are complete and synced, and the journal is durable up to the
  // cut. `existing`: what to do with an existing manifest. Returns taken_by_another_run() if that
  // is of another run.
  Status finish(Manifest manifest, Existing existing = Existing::kRefuse);

  // Undoes a failed commit. Returns whether it is certain that no manifest names the segments, even
  // after a crash. Otherwise they have to stay, and are pruned later.
  bool unpublish() { return pending_.take_back(); }
  // Removes the folder, unless it holds files of other ranks.
  void remove_folder() { (void)files_.remove_folder(folder_); }

 private:
  Status publish();
  Status link(Manifest& manifest) const;
  Status refuse(const std::string& why) const;
  Status check(const Manifest& manifest) const;

  FileSystem& files_;
  const CheckpointPlace place_;
  const std::string folder_;
  PendingManifest pending_;
};

}  // namespace gpusnap
