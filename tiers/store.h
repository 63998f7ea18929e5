// The store: checkpoints of jobs in a folder that may be shared by many nodes and jobs.
//
//   <pfs>/<job>/lock                           held by the running process of rank 0
//   <pfs>/<job>/<run>-r<rank>.journal          replay journal parts
//   <pfs>/<job>/e<epoch>/r<rank>-<run>-<n>.segment
//   <pfs>/<job>/e<epoch>/r<rank>.manifest      written under a temporary name, then renamed
//
// A checkpoint is immutable. Commit order: segments synced, journal up to the cut durable, epoch
// folder synced, manifest written under a temporary name and synced, renamed, folder synced.
// Complete: every rank's manifest is there and valid and all that it names is there in full size,
// in its ancestors too where it is an increment.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/journal.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"
#include "tiers/spawn.h"
#include "tiers/staging.h"
#include "tiers/status.h"

namespace gpusnap {

enum class CheckpointState { kComplete, kPartial, kDamaged };
const char* name_of(CheckpointState state);  // "complete", "partial", "damaged"

struct CheckpointInfo {
  std::string job;
  uint64_t epoch = 0;
  std::string id;  // "<job>@<epoch>": what users type
  CheckpointState state = CheckpointState::kPartial;
  std::string reason;           // partial, damaged: one line
  int64_t time_unix_ns = 0;     // of the cut; of the folder where no manifest can be read
  uint64_t bytes = 0;           // of device memory at the cut, all ranks
  uint64_t own_bytes = 0;       // of those, in its own segments; the others are in its ancestors'
  uint64_t stored_bytes = 0;    // of its own files and of its journal
  uint32_t chain = 0;           // how many ancestors it has, the most over the ranks; 0: full
  uint64_t needed_by = 0;       // epoch of the newest complete checkpoint that it is an ancestor of
  uint64_t stall_ns = 0;        // the longest over the ranks
  std::vector<Manifest> ranks;  // valid manifests, by rank
};

// Bytes of a checkpoint and where they are: in an extent of its own or of an ancestor's.
struct PlacedExtent {
  uint32_t member = 0;  // index in Contents::chain
  uint32_t extent = 0;  // index in that manifest's extents
  uint64_t within = 0;  // bytes from the extent's start
  uint32_t range = 0;   // index in the ranges of the checkpoint itself
  uint64_t offset = 0;  // bytes from that range's start
  uint64_t size = 0;    // bytes
};

// All that one rank's part of a checkpoint consists of.
struct Contents {
  std::vector<Manifest> chain;  // its own manifest, its parent's, and so on to a full one
  // Each byte of each range exactly once, in the order in which the bytes lie in the files, those
  // of an extent one after the other.
  std::vector<PlacedExtent> pieces;

  // pieces[first] and those behind it that lie in the same extent.
  std::span<const PlacedExtent> pieces_of_extent(size_t first) const;
};

// Called now and then with the bytes done and the bytes in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// The segments that were read since the round began, by path, and what was wrong with them: the
// checkpoints of a chain share them. Not thread-safe.
using VerifyRound = std::map<std::string, Status>;

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
  virtual void abandon() = 0;
  // Waits until it is committed or has failed.
  virtual Status wait() = 0;
  virtual bool done() const = 0;
};

class Store {
 public:
  // Makes the folder if `create`. kPermission and the like say what to do. `spawn` makes the
  // threads of the checkpoint writers.
  static Result<std::unique_ptr<Store>> open(FileSystem& files, const std::string& pfs, bool create,
                                             Spawn spawn = {});
  virtual ~Store() = default;

  virtual const std::string& folder() const = 0;
  virtual std::string job_folder(const std::string& job) const = 0;

  // Newest first. All jobs when `job` is empty. Damaged and partial ones too. Foreign files are
  // passed over.
  virtual Result<std::vector<CheckpointInfo>> list(const std::string& job) = 0;
  // `id`: "<job>@<epoch>": that one, whatever its state; "<job>@latest" or "<job>": the newest
  // complete one. kNotFound says what there is instead.
  virtual Result<CheckpointInfo> find(const std::string& id) = 0;
  // Reads every byte: manifests, journal, segments, those of the ancestors too. Ok, or the first
  // thing that is wrong. What is in `round` is not read again.
  virtual Status verify(const CheckpointInfo& checkpoint, const Progress& progress,
                        VerifyRound* round = nullptr) = 0;

  // One process may write to a job at a time; kBusy names the job.
  virtual Result<std::unique_ptr<FileLock>> lock_job(const std::string& job) = 0;
  // One more than any epoch that has left a trace.
  virtual Result<uint64_t> next_epoch(const std::string& job) = 0;
  virtual Result<std::unique_ptr<CheckpointWriter>> begin(const std::string& job, uint64_t epoch,
                                                          uint32_t rank, const std::string& run,
                                                          StagingPool& pool,
                                                          uint64_t segment_bytes) = 0;
  // Where the bytes of a complete checkpoint are. Reads the ancestors' manifests.
  virtual Result<Contents> resolve(const CheckpointInfo& checkpoint, uint32_t rank) = 0;
  // Reads one extent of the checkpoint's or an ancestor's manifest into `bytes` (exactly its size)
  // and checks it.
  virtual Status read(const CheckpointInfo& checkpoint, const Manifest& manifest,
                      const Extent& extent, std::span<std::byte> bytes) = 0;
  // Removes complete checkpoints of the job beyond the newest `keep`, partial ones older than the
  // newest complete one that no live run writes, and journals that nothing kept names. Ancestors of
  // what is kept stay, and do not count. The caller holds the job's lock. Nothing goes before its
  // successor is durable.
  virtual Status prune(const std::string& job, uint32_t keep) = 0;
};

// A job's name as a folder's name: letters, digits, '.', '_', '-'; others become '_'; never empty,
// never starting with a dot; at most 128 bytes.
std::string sanitise_job(const std::string& name);

}  // namespace gpusnap
