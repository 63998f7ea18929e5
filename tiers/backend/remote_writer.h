// SPDX-License-Identifier: Apache-2.0
// Hands a checkpoint over to the backend. The writer's thread checks and hands over the slots; the
// backend, of this process or of another one, compresses, writes and commits. After everything has
// been handed over (wait_handed_over()), the checkpoint does not need this process any more.
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

// Writes one rank's part of one checkpoint. write() and finish() only queue work for the writer's
// thread. Thread-safe.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;  // abandons an uncommitted checkpoint, removes its files
  // Checks a slot's bytes before they are written. A failure fails the checkpoint with that status.
  using Check = std::function<Status(std::span<const std::byte> bytes)>;
  // Queues the slot's used bytes as the content of the pieces, which lie in it one after the other:
  // at least one, none empty, and their sizes add up to `used`. The slot goes back to the pool when
  // it is written. Adjacent pieces are stored as one. The writer's thread calls `check` once, or
  // never if the checkpoint has failed before.
  virtual void write(std::span<const Piece> pieces, Slot* slot, Check check = {}) = 0;
  // Ends the data. `manifest` holds everything but extents and segments; its last journal part is
  // made durable in `journal` before the manifest is committed. The parent of an increment must
  // have been committed. Does not wait. `done` is the last call of the writer's thread, after a
  // commit or a failure.
  using Done = std::function<void(const Status&)>;
  virtual void finish(Manifest manifest, JournalWriter* journal, Done done = {}) = 0;
  // Takes chunks that the caller writes to a local tier itself; lives as long as the writer.
  // finish() does not seal the checkpoint before the backend has checked all of them. Null: not
  // supported.
  virtual DirectSink* direct() { return nullptr; }
  virtual void abandon() = 0;
  // Waits until the checkpoint does not need this process any more: everything has been handed over
  // to a backend that outlives it, or the checkpoint has ended.
  virtual void wait_handed_over() = 0;
  // Waits until the checkpoint is committed, kept in memory if its text says so, or has failed.
  virtual Status wait() = 0;
  virtual bool done() const = 0;
};

// The process that makes the checkpoint's folder in the store, which reserves its epoch.
enum class FolderMaker {
  // The writer, before it hands over anything: no other checkpoint gets the epoch while the bytes
  // are
  // in memory alone. Waits until the store answers.
  kWriter,
  // The backend, which writes to local tiers meanwhile. If it dies before the store answers, a run
  // on
  // another node can take the epoch, and one of the two checkpoints is refused. Only for jobs of
  // one
  // rank: with several, parts of both could look like one checkpoint.
  kBackend,
};

// `files` and `pool` outlive the writer. A checkpoint that stays in memory gets no folder. If the
// backend has gone, the writer waits for another one as long as the pool's watch says; then the
// checkpoint fails.
Result<std::unique_ptr<CheckpointWriter>> start_remote_writer(FileSystem& files, StagingPool& pool,
                                                              const CheckpointText& text,
                                                              FolderMaker folder,
                                                              const Spawn& spawn);

}  // namespace gpusnap
