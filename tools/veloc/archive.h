// SPDX-License-Identifier: Apache-2.0
//
// The last tier of a history: files on the node's scratch folder, which a thread copies to the
// persistent folder, and how many versions are kept there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tiers/clock.h"
#include "tiers/segment_store.h"
#include "tiers/spawn.h"
#include "tools/veloc/part_files.h"

namespace gpusnap::veloc {

// Thread-safe, but for one checkpoint at a time.
class Archive {
 public:
  struct Options {
    std::string scratch;  // empty: checkpoints go straight to the persistent folder
    std::string persistent;
    uint32_t max_versions = 0;  // complete ones of each name that are kept; 0: all
    CompressionSetting compression;
    Owner owner;
  };
  Archive(FileSystem& files, Clock& clock, Options options);
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  // Checkpoints that have not been copied to the persistent folder stay on the scratch folder.
  ~Archive();
  Status start();

  // One of the writes of a version.
  struct Written {
    Layout layout;
    WriteId id;
  };
  // Durable on one of the folders at return. `fill` adds all bytes; it is called once more if the
  // first folder failed. Does nothing if a folder has just this write already.
  Status write(const Name& name, const Written& what,
               const std::function<Status(PartWriter&)>& fill);
  // The rank's part. If two runs wrote one to the two folders, the one whose run wrote rank 0's
  // part on the persistent folder, if that is there; kDamaged if neither did.
  Result<Written> find(const Name& name) const;
  // Hands out all bytes of that write, checked; from the beginning again if a folder's bytes are
  // wrong.
  Status read(const Name& name, const Written& what, ReadBuffers& buffers, const TakePieces& take);
  // Versions of which the rank has a part, newest first.
  std::vector<uint64_t> versions(const std::string& name) const;

  bool is_drained() const;
  // Waits until all that was written is on the persistent folder. The first failure since the last
  // call.
  Status wait_until_drained();

 private:
  std::vector<PartFolder*> folders() const;
  static bool has(const PartFolder& folder, const Name& name, const Written& what);
  Status write_to(PartFolder& folder, const Name& name, const Written& what,
                  const std::function<Status(PartWriter&)>& fill);
  Status claim(const std::string& name);
  void run();
  Status copy_to_persistent(const Name& name);
  Status prune(const Name& name);

  FileSystem& files_;
  const Options options_;
  Compression compression_;
  std::unique_ptr<PartFolder> scratch_;  // null: none
  std::unique_ptr<PartFolder> persistent_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Name> queue_;  // the first one is being copied
  bool is_ending_ = false;
  Status failure_;
  std::map<std::string, std::unique_ptr<FileLock>> locks_;  // rank 0's, of the names it writes
  Join thread_;
};

}  // namespace gpusnap::veloc
