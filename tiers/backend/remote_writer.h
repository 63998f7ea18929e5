// A checkpoint on its way to the backend: what a CheckpointWriter does from the process that saves.
// Slots are looked at and handed over by a thread of the writer's own; the backend, of this process
// or of another one, compresses, writes and commits. From the moment at which all has been handed
// over (finish()) the checkpoint does not need this process any more.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "tiers/backend/message.h"
#include "tiers/direct/direct_sink.h"
#include "tiers/file_system.h"
#include "tiers/journal.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"
#include "tiers/spawn.h"
#include "tiers/staging/pool.h"
#include "tiers/status.h"

namespace gpusnap {

// One rank's part of one checkpoint being written. write() and finish() only queue work for the
// writer's own thread: checksums, file writes, syncs and the commit happen there.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;  // abandons what was not committed, removes its files
  // Looks at a slot's bytes before they are written; not ok fails the checkpoint with that status.
  using Check = std::function<Status(std::span<const std::byte> bytes)>;
  // Queues the slot's used bytes as the content of the pieces, which lie in it one after the other
  // (at least one, none empty, their sizes add up to `used`); the slot goes back to the pool when
  // written. Pieces that go on where the one before them ends are stored as one. `check` is called
  // by the writer's own thread, once, or never where the checkpoint has failed before.
  virtual void write(std::span<const Piece> pieces, Slot* slot, Check check = {}) = 0;
  // No more data. `manifest` holds everything but extents and segments; its last journal part is
  // made durable in `journal` before the manifest is committed. The parent of an increment must
  // have been committed. Does not wait. `done` is called
  // last of all by the writer's own thread, whether it was committed or has failed.
  using Done = std::function<void(const Status&)>;
  virtual void finish(Manifest manifest, JournalWriter* journal, Done done = {}) = 0;
  // Takes chunks that the caller writes to a local tier itself; lives as long as this. finish()
  // does not seal the checkpoint before the backend has checked all of them. Null: it takes none.
  virtual DirectSink* direct() { return nullptr; }
  virtual void abandon() = 0;
  // Waits until it does not need this process any more: all has been handed over to a backend that
  // outlives it, or it has come to its end.
  virtual void wait_handed_over() = 0;
  // Waits until it is committed, kept in memory where its text says so, or has failed.
  virtual Status wait() = 0;
  virtual bool done() const = 0;
};

// The process that makes the checkpoint's folder in the store, whose name takes its number.
enum class FolderMaker {
  // The writer, before it hands over anything: nobody else gives the number to another checkpoint
  // while its bytes are in memory alone. Waits for the store, however long that takes to answer.
  kWriter,
  // The backend, which writes to local tiers meanwhile. Should it die before the store answers, a
  // run on another node can take the number, and one of the two checkpoints is refused. So this is
  // for jobs of one rank: with several, parts of both could look like one checkpoint.
  kBackend,
};

// A checkpoint that stays in memory has no folder.

// `files`, `pool` outlive it.
//
// A backend that has gone is waited for as long as the pool's watch says; one that cannot be had
// any more, a pool that stays full because of that, fails this checkpoint.
Result<std::unique_ptr<CheckpointWriter>> start_remote_writer(FileSystem& files, StagingPool& pool,
                                                              const CheckpointText& text,
                                                              FolderMaker folder,
                                                              const Spawn& spawn);

}  // namespace gpusnap
