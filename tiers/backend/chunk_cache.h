// Chunks whose bytes are in the store: copies on local tiers, which restores read
// (local_chunks.h) until their room is needed, the oldest first.
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

// Removes a part's chunks and its block logs from these folders, each the epoch's on a local tier,
// and those above that are empty then. That the logs are gone is durable before a chunk goes; else
// the chunks stay: a log that a crash brought back would be taken up again.
Status remove_local_files(FileSystem& files, const std::vector<std::string>& folders, uint32_t rank,
                          const std::string& run);

// Thread-safe; does its work on files with a lock held. A path on none of its tiers is nothing.
class ChunkCache {
 public:
  explicit ChunkCache(FileSystem& files) : files_(files) {}

  // Before all else. `root`: all its paths begin with that. In bytes.
  void add_tier(const std::string& root, uint64_t capacity, uint64_t chunk_bytes);

  // A chunk is about to be written, for which placement has found room: copies make way for it.
  void begin(const std::string& path);
  // It has gone, or will not come.
  void end(const std::string& path);
  // Keeps a chunk that has begun as a copy: its bytes are in the store, and nobody needs it any
  // more.
  void keep(const ChunkOwner& owner, const std::vector<std::string>& folders,
            const std::string& path, uint64_t bytes);
  // The part is committed: with its last chunk, its block logs go.
  void commit(const ChunkOwner& owner, const std::vector<std::string>& folders);
  // From earlier, committed; oldest first.
  void adopt(const ChunkOwner& owner, const std::vector<std::string>& folders,
             const std::string& path, uint64_t bytes);

  // Its copies go.
  void drop(const ChunkOwner& owner);
  // Drops the copies of the job's checkpoints that are not in the store any more.
  void drop_pruned(const std::string& job_folder);
  // All that can go from the device that holds that path: it is full.
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
  struct Part {
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
  std::map<ChunkOwner, Part> parts_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
