// SPDX-License-Identifier: Apache-2.0
// The chunks of one rank's part of a checkpoint on local tiers: makes their files, takes up those
// that an earlier backend left, moves their bytes to segments, and lets them go or stay as copies.
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

// Each function says which thread calls it. The maker is the thread that makes chunks:
// JobThread's, or the part's if there can be no other. A status that is not ok ends the part.
class PartChunks {
 public:
  struct Setting {
    CheckpointPlace place;
    PartFolders folders;
    ChunkCache* cache = nullptr;  // outlives it; null: chunks that are in the store go
    size_t block_bytes = 0;
    StoreRate* rate = nullptr;  // outlives it
    // The device of that path has failed. By any thread, without a lock held.
    std::function<void(const std::string& path, const Status& why)> local_failed;
  };
  // They outlive it. `segments` is closed before it goes.
  struct Neighbours {
    PartProgress& progress;
    PartLog& log;
    PartSegments& segments;
  };

  PartChunks(FileSystem& files, Setting setting, Neighbours neighbours);

  // Before all that follows but device_failed(). By the part's thread.
  void take_up(const FoundPart& found);
  // The chunks that take_up() was given. By the part's thread.
  std::vector<FoundChunk> found() const;
  // Opens them. By the part's thread, before one is moved. Not ok if one has lost bytes.
  Status open_found();

  // The device that holds that path fails: from here on the part does without. Any thread.
  void device_failed(const std::string& path, const Status& why);
  // The same of the chunk of that number, unless it has gone. By the part's thread.
  void chunk_failed(uint32_t number, const Status& why);

  // A new chunk's file in that folder; see CheckpointReceiver::open_chunk(). By the maker.
  Status make(size_t folder, const std::function<void(std::shared_ptr<PlacedFile>)>& opened);
  // See CheckpointReceiver::open_direct(). By the maker.
  Status make_direct(size_t folder,
                     const std::function<void(uint32_t number, std::string path)>& opened);
  // See CheckpointReceiver::add_direct(). By the maker.
  Status take_direct(uint64_t sequence, const DirectChunk& chunk,
                     const std::function<void()>& stored);
  // See CheckpointReceiver::direct_path(). Any thread.
  std::string direct_path(uint32_t number) const;

  // Begins to move the chunk to a segment; `moved` is called by the part's thread, which is given
  // the end as a job. By the part's thread.
  Status begin_move(uint32_t number, const std::function<void()>& moved);

  // All bytes that the logs name are durable on their local tiers, and so are their names. False
  // where a device failed, which has been told. By the part's thread.
  bool sync();

  // The rest is called by the part's thread at its end, when nothing is on its way any more.
  // Closes all chunks that are still there.
  void close();
  // Whether chunks in the store can stay as copies.
  bool can_keep_copies() const { return setting_.cache != nullptr && has_local(); }
  // Removes the files that close() found: they are no copies of what is in the store.
  void remove_unmoved();
  // The part is committed, and its log says so: copies stay until their room is needed.
  void keep_copies();
  // All that the part has on local tiers goes, as remove_local_files() says.
  Status remove_all();

 private:
  struct Chunk {
    std::string path;
    std::shared_ptr<PlacedFile> placed;  // its own
    std::unique_ptr<BulkFile> found;     // an earlier backend's
  };

  using Chunks = std::map<uint32_t, Chunk>;  // by number

  bool has_local() const { return !setting_.folders.chunks.empty(); }
  ChunkOwner owner() const;
  std::string path_of(size_t folder, uint32_t number) const;
  void begin_in_cache(const std::string& path);
  void end_in_cache(const std::string& path);
  Chunk* find(uint32_t number);  // null where it has gone
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

  // The maker's, after take_up().
  uint32_t next_chunk_ = 0;
  uint32_t next_direct_ = kFirstDirectChunk;

  // The part's thread's own.
  std::map<uint32_t, FoundPart::Chunk> found_;  // that an earlier backend left; set by take_up()
  std::vector<std::string> unmoved_;            // paths, from close() on

  mutable Mutex mutex_;
  // Chunks that are still needed. The lock guards the map, not the chunks themselves: only the
  // part's thread removes one, and nothing moves another.
  Chunks chunks_ GUARDED_BY(mutex_);
  std::map<uint32_t, std::string> direct_ GUARDED_BY(mutex_);  // paths that the client may write
};

}  // namespace gpusnap
