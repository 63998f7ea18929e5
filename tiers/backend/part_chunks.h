// SPDX-License-Identifier: Apache-2.0
// The chunks of one rank's part of a checkpoint on local tiers: creates their files, takes over
// those that an earlier backend left, moves their bytes to segments, and then removes them or keeps
// them as copies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/chunk_cache.h"
#include "tiers/backend/chunk_copy.h"
#include "tiers/backend/part_log.h"
#include "tiers/backend/part_progress.h"
#include "tiers/backend/part_recovery.h"
#include "tiers/backend/part_segments.h"
#include "tiers/commit.h"
#include "tiers/direct/direct_chunk.h"
#include "tiers/file_system.h"
#include "tiers/mutex.h"
#include "tiers/status.h"
#include "tiers/store_rate.h"

namespace gpusnap {

// Each function says which thread calls it. The maker is the thread that makes chunks: a
// JobThread's or, if that cannot be started, the part's. A status that is not ok ends the part.
class PartChunks {
 public:
  struct Setting {
    CheckpointPlace place;
    PartFolders folders;
    ChunkCache* cache = nullptr;  // outlives it; null: chunks in the store are removed
    size_t block_bytes = 0;
    StoreRate* rate = nullptr;  // outlives it
    // The device that holds that path has failed. By any thread, without a lock held.
    std::function<void(const std::string& path, const Status& why)> local_failed;
  };
  // All outlive it. `segments` is closed before its destructor.
  struct Neighbours {
    PartProgress& progress;
    PartLog& log;
    PartSegments& segments;
  };

  PartChunks(FileSystem& files, Setting setting, Neighbours neighbours);

  // Before all functions below except device_failed(). By the part's thread.
  void take_up(const FoundPart& found);
  // Returns the chunks that take_up() was given. By the part's thread.
  std::vector<FoundChunk> found() const;
  // Opens these chunks before one is moved. Fails if one has lost bytes. By the part's thread.
  Status open_found();

  // The device that holds that path has failed: the part does not use it any more. Any thread.
  void device_failed(const std::string& path, const Status& why);
  // The device of the chunk of that number has failed. Does nothing if the chunk has been removed.
  // By the part's thread.
  void chunk_failed(uint32_t number, const Status& why);

  // See CheckpointReceiver::open_chunk(). By the maker.
  Status make(size_t folder, const std::function<void(std::shared_ptr<PlacedFile>)>& opened);
  // See CheckpointReceiver::open_direct(). By the maker.
  Status make_direct(size_t folder,
                     const std::function<void(uint32_t number, std::string path)>& opened);
  // See CheckpointReceiver::add_direct(). By the maker.
  Status take_direct(uint64_t sequence, const DirectChunk& chunk,
                     const std::function<void()>& stored);
  // See CheckpointReceiver::direct_path(). Any thread.
  std::string direct_path(uint32_t number) const;

  // Begins to move the chunk to a segment. The end of the move becomes a job of the part's thread,
  // which calls `moved`. By the part's thread.
  Status begin_move(uint32_t number, const std::function<void()>& moved);

  // Makes all bytes that the logs name, and the names of their files, durable on the local tiers.
  // Returns false if a device failed; that has been reported. By the part's thread.
  bool sync();

  // All functions below are called by the part's thread at its end, when nothing is in flight.
  // Closes the chunks that are left.
  void close();
  // Returns whether chunks in the store can stay as copies.
  bool can_keep_copies() const { return setting_.cache != nullptr && has_local(); }
  // Removes the files that close() found: their bytes are not in the store.
  void remove_unmoved();
  // The part is committed and its log says so. Keeps its copies until their room is needed.
  void keep_copies();
  // Removes all files of the part on local tiers; see remove_local_files().
  Status remove_all();

 private:
  struct Chunk {
    std::string path;
    std::shared_ptr<PlacedFile> placed;  // if this backend made it
    std::unique_ptr<BulkFile> found;     // if an earlier backend made it
  };

  using Chunks = std::map<uint32_t, Chunk>;  // by number

  bool has_local() const { return !setting_.folders.chunks.empty(); }
  ChunkOwner owner() const;
  std::string path_of(size_t folder, uint32_t number) const;
  void begin_in_cache(const std::string& path);
  void end_in_cache(const std::string& path);
  Chunk* find(uint32_t number);  // null if it has been removed
  Chunk& at(uint32_t number);
  std::vector<uint32_t> numbers() const;
  std::shared_ptr<PlacedFile> add_placed(uint32_t number, const std::string& path,
                                         std::unique_ptr<BulkFile> file);
  Chunk& add_found(uint32_t number, const std::string& path);
  Status open_found_direct(uint32_t number, const std::string& path);
  Status begin_copy_of(uint32_t number, const std::vector<ChunkBlock>& blocks,
                       const std::function<void()>& moved);
  Status end_move(const MovedChunk& entry, PlacedFile& segment, const std::function<void()>& moved);
  void release(const MovedChunk& entry);
  void forget(uint32_t number);
  Chunks::node_type extract(uint32_t number);
  void remove(uint32_t number);
  Status sync_chunk(uint32_t number, const Chunk& chunk);

  FileSystem& files_;
  const Setting setting_;
  PartProgress& progress_;
  PartLog& log_;
  PartSegments& segments_;

  // Used by the maker alone, after take_up().
  uint32_t next_chunk_ = 0;
  uint32_t next_direct_ = kFirstDirectChunk;

  // Used by the part's thread alone.
  std::map<uint32_t, FoundPart::Chunk> found_;  // left by an earlier backend; set by take_up()
  std::vector<std::string> unmoved_;            // paths; set by close()

  mutable Mutex mutex_;
  // Chunks that are still needed. The lock guards the map, not the chunks themselves: only the
  // part's thread removes one, and nothing moves another.
  Chunks chunks_ GUARDED_BY(mutex_);
  std::map<uint32_t, std::string> direct_ GUARDED_BY(mutex_);  // paths that the client may write
};

}  // namespace gpusnap
