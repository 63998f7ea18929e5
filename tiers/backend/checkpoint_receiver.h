// SPDX-License-Identifier: Apache-2.0
// Brings one rank's part of one checkpoint from a client to the store: writes its slots to segments
// (segment_store.h), records stored slots in a block log, and commits the manifest when all slots
// are stored. Takes over what an earlier backend left of the part.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/backend/block_log.h"
#include "tiers/backend/chunk_cache.h"
#include "tiers/backend/message.h"
#include "tiers/commit.h"
#include "tiers/direct/direct_chunk.h"
#include "tiers/file_system.h"
#include "tiers/piece.h"
#include "tiers/segment_store.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// Returns whether a device caused the failure, so that another try may succeed.
bool is_of_device(const Status& status);

// A chunk that an earlier backend left on a local tier and whose bytes are not in the store yet.
struct FoundChunk {
  uint32_t number = 0;
  std::string path;
  uint64_t memory_bytes = 0;  // bytes of memory that it holds, before compression
};

// Thread-safe. A thread of its own, the part's thread, makes all calls that may block.
class CheckpointReceiver {
 public:
  struct Setting {
    CheckpointText text;
    SegmentStore::Options store;  // its callbacks are not used
    std::shared_ptr<Compression> compression;
    Spawn spawn;
    // The folders of its chunks, one for each local tier after the cache. The first one also holds
    // its block log. Empty: the log lies beside the segments.
    std::vector<std::string> chunk_folders;
    // Keeps chunks whose bytes are in the store. Outlives the receiver. Null: they are removed.
    ChunkCache* cache = nullptr;
    // The log says that all of the part is in files: no slot will be added.
    bool is_leftover = false;
    // No earlier backend has seen the part, so no file holds any of it: it may begin on local tiers
    // before the store has answered.
    bool is_new = false;
    // Its journal was durable up to the cut before the part came here.
    bool has_durable_journal = false;
  };
  // Called by the part's thread, without a lock held.
  struct Actions {
    // The receiver has found what an earlier backend left: expect() and all functions after it may
    // be called from now on. The given chunks are to be moved like chunks that open_chunk() made.
    std::function<void(const std::vector<FoundChunk>&)> ready;
    // Makes the journal durable up to the cut. Called after all slots are stored and before the
    // commit. `gave_up` returns true when it is not to wait any longer.
    std::function<Status(const ManifestText::Journal& journal,
                         const std::function<bool()>& gave_up)>
        make_journal_durable;
    std::function<Status(const std::function<bool()>& gave_up)> wait_for_turn;
    // The local tier that holds that path has failed. As far as possible the part writes nothing
    // more to it.
    std::function<void(const std::string& path, const Status& why)> local_failed;
    // All of the part is on devices of the node, at least: it outlives the node's memory.
    std::function<void()> held;
    // The part has been committed.
    std::function<void()> committed;
    // The last call: the part has been committed, or has failed and left no files. Not made after
    // leave().
    std::function<void(const Status&)> ended;
  };

  // `files` outlives it.
  static Result<std::shared_ptr<CheckpointReceiver>> start(FileSystem& files, Setting setting,
                                                           Actions actions);
  virtual ~CheckpointReceiver() = default;  // as leave() and wait()

  virtual const CheckpointText& text() const = 0;
  // Announces a slot that will be added. Returns false if it must not be added: an earlier backend
  // has stored it, or it was announced before, which fails the checkpoint.
  virtual bool expect(uint64_t sequence) = 0;

  // Called once, by any thread. `stored`: the slot is in a file and in the log.
  using Release = std::function<void(bool stored)>;
  struct Slot {
    uint64_t sequence = 0;
    std::span<const Piece> pieces;
    std::span<const std::byte> bytes;  // stay until released
    Release release;
  };
  // One decision about compression is made for slots that are added together. `chunk`: the file
  // that they go to; null: a segment.
  virtual void add(std::vector<Slot> slots, const std::shared_ptr<PlacedFile>& chunk) = 0;
  // Makes a new chunk's file in the folder of that index. `opened` is called by any thread, or
  // never if the part ends before. If the file cannot be made or fails later, slots that are added
  // to the chunk go to segments.
  virtual void open_chunk(size_t folder,
                          std::function<void(std::shared_ptr<PlacedFile>)> opened) = 0;
  // Moves the chunk's bytes to a segment and then removes its file. To be called when all slots of
  // the chunk have been released. `moved` is called by any thread, or never if the part ends
  // before.
  virtual void move_chunk(uint32_t number, std::function<void()> moved) = 0;
  // Makes a new file in the folder of that index for a chunk that the client writes directly.
  // `opened` is called by any thread, or never if the part ends before, with the file's number and
  // path. An empty path: the file cannot be made.
  virtual void open_direct(size_t folder,
                           std::function<void(uint32_t number, std::string path)> opened) = 0;
  // Returns the path of such a file, opened by this backend or an earlier one, whose chunk has not
  // been stored yet. Empty: there is no file of that number.
  virtual std::string direct_path(uint32_t number) const = 0;
  // The slot of that sequence says that the client has written the chunk. The chunk is checked and
  // recorded as stored. Then `stored` is called by any thread, and the chunk can be moved. If the
  // chunk is not right, the part fails and `stored` is not called.
  virtual void add_direct(uint64_t sequence, DirectChunk chunk, std::function<void()> stored) = 0;
  virtual void add_manifest(uint64_t sequence, std::span<const std::byte> bytes,
                            Release release) = 0;
  // Sets the number of slots. The part fails if one of them is neither stored nor expected by now.
  virtual void seal(uint64_t slots) = 0;
  // Fails the part with that reason. Any time.
  virtual void fail(const Status& why) = 0;
  // Ends the receiver and leaves everything to another backend. Any time; does not wait.
  virtual void leave() = 0;
  // Waits until the part's thread has ended. Called by one thread.
  virtual void wait() = 0;
  // Returns whether the store's device caused the failure and all of the part stays on local
  // devices, so that the part can be taken up again. After its end.
  virtual bool waits_for_another_try() const = 0;
  // Returns whether the part needs a journal, and which. kUnknown until its manifest has been read.
  enum class Needs { kUnknown, kNone, kJournal };
  virtual Needs needs(ManifestText::Journal& journal) const = 0;
};

}  // namespace gpusnap
