// SPDX-License-Identifier: Apache-2.0
// The last steps of one rank's part of a checkpoint: its manifest, in the order of
// docs/file-format.md.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/pending_manifest.h"
#include "tiers/status.h"

namespace gpusnap {

struct CheckpointPlace {
  std::string job_folder;       // with the store's
  std::string job_folder_name;  // alone
  std::string run;
  uint64_t epoch = 0;
  uint32_t rank = 0;

  std::string epoch_folder_path() const;
};

// Two runs may take one number where neither can see the other's part yet: why the later one of
// them is not written.
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
  // The segments are complete and synced, the journal is durable up to the cut. `existing`: what
  // becomes of a manifest that is there already. taken_by_another_run() where it is another run's.
  Status finish(Manifest manifest, Existing existing = Existing::kRefuse);

  // After a failure at any step: whether it is certain that no manifest names the segments, also
  // after a crash. Else they stay, and are pruned later.
  bool unpublish() { return pending_.take_back(); }
  // Unless other ranks are in it.
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
