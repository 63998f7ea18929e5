// SPDX-License-Identifier: Apache-2.0
// Keeps chunks whose bytes are in the store as copies on local tiers. Restores read them
// (local_chunks.h). When their room is needed, the oldest copies go first.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/mutex.h"
#include "tiers/status.h"

namespace gpusnap {

// Identifies one rank's part of a checkpoint.
struct ChunkOwner {
  std::string job_folder;  // in the store
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::string run;
  auto operator<=>(const ChunkOwner&) const = default;
};

// Removes a part's chunks and block logs from these folders, each the epoch's folder on a local
// tier, and then the folders above that are empty. The removal of the logs is made durable before a
// chunk is removed; if that fails, the chunks stay: otherwise a crash could bring back a log
// without them.
Status remove_local_files(FileSystem& files, const std::vector<std::string>& folders, uint32_t rank,
                          const std::string& run);

// Thread-safe. Works on files with its lock held. Ignores paths that are on none of its tiers.
class ChunkCache {
 public:
  explicit ChunkCache(FileSystem& files) : files_(files) {}

  // Before all other calls. `root`: the prefix of all paths on the tier. Sizes in bytes.
  void add_tier(const std::string& root, uint64_t capacity, uint64_t chunk_bytes);

  // A chunk, for which placement has found room, is about to be written. Removes copies until it
  // fits.
  void begin(const std::string& path);
  // The chunk has been removed, or will not be written.
  void end(const std::string& path);
  // Turns a chunk that has begun into a copy: its bytes are in the store, and its part does not
  // need it any more.
  void keep(const ChunkOwner& owner, const std::vector<std::string>& folders,
            const std::string& path, uint64_t bytes);
  // The part is committed: its block logs are removed with its last copy.
  void commit(const ChunkOwner& owner, const std::vector<std::string>& folders);
  // Takes over a copy that an earlier backend left of a committed part. To be called for the oldest
  // copies first.
  void adopt(const ChunkOwner& owner, const std::vector<std::string>& folders,
             const std::string& path, uint64_t bytes);

  // Removes all copies of the part.
  void drop(const ChunkOwner& owner);
  // Drops the copies of the job's checkpoints that are not in the store any more.
  void drop_pruned(const std::string& job_folder);
  // Removes all copies from the device that holds that path: it is full.
  void make_room(const std::string& path);

  uint64_t bytes() const;  // of copies

 private:
  struct Tier {
    std::string root;
    uint64_t capacity = 0;
    uint64_t chunk_bytes = 0;
    uint64_t begun = 0;   // chunks
    uint64_t copies = 0;  // bytes
  };
  struct Copy {
    ChunkOwner owner;
    size_t tier = 0;
    std::string path;
    uint64_t bytes = 0;
  };
  struct PartCopies {
    std::vector<std::string> folders;
    size_t copies = 0;
    bool committed = false;
  };

  std::optional<size_t> tier_of(const std::string& path) const REQUIRES(mutex_);
  void add(const ChunkOwner& owner, const std::vector<std::string>& folders, Copy copy)
      REQUIRES(mutex_);
  std::list<Copy>::iterator remove(std::list<Copy>::iterator copy) REQUIRES(mutex_);
  void end_if_empty(const ChunkOwner& owner) REQUIRES(mutex_);
  void drop_locked(const ChunkOwner& owner) REQUIRES(mutex_);

  FileSystem& files_;
  mutable Mutex mutex_;
  std::vector<Tier> tiers_ GUARDED_BY(mutex_);
  std::list<Copy> copies_ GUARDED_BY(mutex_);  // oldest first
  std::map<ChunkOwner, PartCopies> parts_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
