// SPDX-License-Identifier: Apache-2.0
// The store: checkpoints of jobs in a folder that may be shared by many nodes and jobs. Here it is
// read, verified and pruned; the backend writes (tiers/backend).
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
#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/spawn.h"
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
  uint64_t journal_bytes = 0;   // of these its journal's, which later ones of the run have as well
  uint64_t shared_bytes = 0;    // of its ancestors' files, without which it is nothing
  uint64_t unnamed_bytes = 0;   // in its folder, of parts that no manifest names
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
};

// Called now and then with the bytes done and the bytes in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Memory that a checkpoint is read into, page by page aligned.
class ReadBuffers {
 public:
  virtual ~ReadBuffers() = default;
  virtual size_t bytes() const = 0;  // of each: a multiple of 64 KiB
  // Null where there is none just now; with `wait`, nobody else will give one back.
  virtual Result<std::byte*> take(bool wait) = 0;
  virtual void give_back(std::byte* buffer) = 0;
  // How many more may be taken and kept for long. Below zero: others need so many of those that are
  // kept.
  virtual int64_t spare() const { return 0; }
};

// Bytes of a range of the checkpoint that were read and checked.
struct ReadPiece {
  uint32_t range = 0;   // index in the ranges of the checkpoint
  uint64_t offset = 0;  // bytes from that range's start
  uint64_t size = 0;    // bytes
  uint64_t at = 0;      // where they lie in what was read
  uint64_t end() const { return offset + size; }
};
// Takes pieces of one range, of what was read at once. They are gone when it returns.
using TakePieces =
    std::function<Status(std::span<const ReadPiece> pieces, std::span<const std::byte> bytes)>;

// The segments that were read since the round began, by path, and what was wrong with them: the
// checkpoints of a chain share them. Not thread-safe.
using VerifyRound = std::map<std::string, Status>;

// An item that pruning has removed, or would remove.
struct PrunedItem {
  std::string what;  // for a user: "demo@3 (complete)"
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct IdlePrune {
  uint32_t keep = 1;
  // Since when nobody has written to a file that no complete checkpoint needs, so that it is taken
  // for left over (ns since 1970).
  int64_t left_since_unix_ns = 0;
  bool dry_run = false;
};

// Bytes that a job's files take.
struct JobUsage {
  uint64_t checkpoints = 0;  // manifests, and the segments that they name
  uint64_t journals = 0;     // named by one
  uint64_t unnamed = 0;  // both, named by none: of checkpoints that are on their way, or left over
};

class Store {
 public:
  // Makes the folder if `create`. kPermission and the like say what to do. `spawn` makes the
  // threads that check what is read.
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
  // Reads every byte: manifests, journal, segments, those of the ancestors too. Returns ok, or the
  // first thing that is wrong. Segments in `round` are not read again.
  virtual Status verify(const CheckpointInfo& checkpoint, const Progress& progress,
                        VerifyRound* round = nullptr) = 0;

  // One process may write to a job at a time; kBusy names the job.
  virtual Result<std::unique_ptr<FileLock>> lock_job(const std::string& job) = 0;
  // One more than any epoch that has left a trace.
  virtual Result<uint64_t> next_epoch(const std::string& job) = 0;
  // Where the bytes of a complete checkpoint are. Reads the ancestors' manifests.
  virtual Result<Contents> resolve(const CheckpointInfo& checkpoint, uint32_t rank) = 0;
  // Reads all that a checkpoint consists of, several reads at a time, and checks it. Pieces come in
  // any order, each byte once. Returns the first failure, after which `take` is not called any
  // more. The caller's thread calls `buffers` and `take`. Bytes that `near` has are read from there
  // if they are right, and counted there; null: there are no copies.
  virtual Status read_all(const CheckpointInfo& checkpoint, const Contents& contents,
                          ReadBuffers& buffers, const TakePieces& take,
                          LocalChunks* near = nullptr) = 0;
  // Reads one extent of the checkpoint's or an ancestor's manifest into `bytes` (exactly its size)
  // and checks it.
  virtual Status read(const CheckpointInfo& checkpoint, const Manifest& manifest,
                      const Extent& extent, std::span<std::byte> bytes) = 0;
  // Prunes a job that no process writes to: holds its lock meanwhile, kBusy if another does.
  // Removes complete checkpoints beyond the newest `keep`, partial ones older than the newest
  // complete one, journals that no kept checkpoint names, and files that no checkpoint needs and
  // nobody has written to for long. Ancestors of kept checkpoints stay, and do not count. Nothing
  // goes before its successor is durable. (Pruning by a run's own backend:
  // tiers/backend/post_commit.h.)
  virtual Result<std::vector<PrunedItem>> prune_idle(const std::string& job,
                                                     const IdlePrune& options) = 0;
  // Names of the jobs' folders.
  virtual Result<std::vector<std::string>> jobs() = 0;
  virtual Result<JobUsage> usage(const std::string& job) = 0;
};

// A job's name as a folder's name: letters, digits, '.', '_', '-'; others become '_'; never empty,
// never starting with a dot; at most 128 bytes.
std::string sanitise_job(const std::string& name);

}  // namespace gpusnap
