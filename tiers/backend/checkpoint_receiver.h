// One rank's part of one checkpoint on its way from a client to the store: its slots go into
// segments (segment_store.h), what is stored is noted in a block log, and when all of it is there
// the manifest is committed. Takes up what an earlier backend left of it.
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

// Whether it failed by what a device did, which may be different another time.
bool is_of_device(const Status& status);

// A chunk that an earlier backend left on a local tier, and whose bytes are not in the store yet.
struct FoundChunk {
  uint32_t number = 0;
  std::string path;
  uint64_t memory_bytes = 0;  // that it holds
};

// Thread-safe. Has a thread of its own, which does all that may block.
class CheckpointReceiver {
 public:
  struct Setting {
    CheckpointText text;
    SegmentStore::Options store;  // its callbacks are not used
    std::shared_ptr<Compression> compression;
    Spawn spawn;
    // Where its chunks lie, one for each local tier behind the cache, and in the first one its
    // block log. None: the log lies beside the segments.
    std::vector<std::string> chunk_folders;
    // Keeps chunks whose bytes are in the store; outlives the receiver. Null: they are removed.
    ChunkCache* cache = nullptr;
    // All of it is in files already, as their log says; nothing will be added.
    bool is_leftover = false;
    // No earlier backend has seen it, so nothing of it is in files yet: it may begin on local tiers
    // before the store has answered.
    bool is_new = false;
    // Its journal was durable up to the cut before it came here.
    bool has_durable_journal = false;
  };
  // By the part's thread, without a lock held.
  struct Actions {
    // The receiver has found what an earlier backend left: expect() and all functions below it may
    // be called from now on. The given chunks are to be moved like chunks that the part is given.
    std::function<void(const std::vector<FoundChunk>&)> ready;
    // Everything is stored, and this has to be so before it is committed. `gave_up` says when not
    // to wait any longer.
    std::function<Status(const ManifestText::Journal& journal,
                         const std::function<bool()>& gave_up)>
        make_journal_durable;
    std::function<Status(const std::function<bool()>& gave_up)> wait_for_turn;
    // The local tier that holds that path fails, and gets nothing more of this part if it can be
    // helped.
    std::function<void(const std::string& path, const Status& why)> local_failed;
    // All of it is on the node's own devices, at least, and outlives its memory.
    std::function<void()> held;
    // It has been committed.
    std::function<void()> committed;
    // Last: it has been committed, or has failed and left no files. Not called after leave().
    std::function<void(const Status&)> ended;
  };

  // `files` outlives it.
  static Result<std::shared_ptr<CheckpointReceiver>> start(FileSystem& files, Setting setting,
                                                           Actions actions);
  virtual ~CheckpointReceiver() = default;  // leaves, waits for the thread

  virtual const CheckpointText& text() const = 0;
  // The slot has arrived and will be added. False where it must not be: an earlier backend has
  // stored it, or it has come before, which fails the checkpoint.
  virtual bool expect(uint64_t sequence) = 0;

  // Called once, by any thread. Whether it is in a file and noted.
  using Release = std::function<void(bool stored)>;
  struct Slot {
    uint64_t sequence = 0;
    std::span<const Piece> pieces;
    std::span<const std::byte> bytes;  // stay until released
    Release release;
  };
  // Slots that come together are compressed by one decision. `chunk`: where they go; null: to a
  // segment.
  virtual void add(std::vector<Slot> slots, const std::shared_ptr<PlacedFile>& chunk) = 0;
  // A new chunk's file in that folder. `opened` is called by any thread, or never where the part
  // ends before. Where it cannot be made, or fails later, what is added to it goes to segments.
  virtual void open_chunk(size_t folder,
                          std::function<void(std::shared_ptr<PlacedFile>)> opened) = 0;
  // All that will be added to the chunk of that number has been released: its bytes go to a
  // segment, and then its file goes. `moved` likewise.
  virtual void move_chunk(uint32_t number, std::function<void()> moved) = 0;
  // A new file in that folder for a chunk that the client writes directly. `opened` is called by
  // any thread, or never where the part ends before: with its number and path; no path: it cannot
  // be made.
  virtual void open_direct(size_t folder,
                           std::function<void(uint32_t number, std::string path)> opened) = 0;
  // The path of such a file that has been opened, by this backend or by an earlier one, and of
  // which nothing was stored yet; empty: there is none of that number.
  virtual std::string direct_path(uint32_t number) const = 0;
  // The slot of that sequence says that the client has written the chunk. It is checked, and noted
  // as stored; then `stored` is called, by any thread, and the chunk can be moved. Where it is not
  // right the part fails, and `stored` is not called.
  virtual void add_direct(uint64_t sequence, DirectChunk chunk, std::function<void()> stored) = 0;
  virtual void add_manifest(uint64_t sequence, std::span<const std::byte> bytes,
                            Release release) = 0;
  // So many slots in all. It fails where one of them is neither stored nor expected by now.
  virtual void seal(uint64_t slots) = 0;
  // Fails it; `why`. Any time.
  virtual void fail(const Status& why) = 0;
  // Ends it and keeps everything as it is, for another backend. Any time; does not wait.
  virtual void leave() = 0;
  // Until its thread has ended. One thread.
  virtual void wait() = 0;
  // It has failed by what the store's device did, and all of it stays on local devices: it can be
  // taken up again. After its end.
  virtual bool waits_for_another_try() const = 0;
  // Which journal it waits for; nothing as long as it has not come to that, kNone where there is
  // none.
  enum class Needs { kUnknown, kNone, kJournal };
  virtual Needs needs(ManifestText::Journal& journal) const = 0;
};

}  // namespace gpusnap
