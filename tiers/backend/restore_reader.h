// SPDX-License-Identifier: Apache-2.0
//
// Reads a checkpoint for its restore. The order of the bytes is known long before their memory is
// allocated, so reading may begin at once, on a thread of its own.
//
// If the store does not have the checkpoint yet, its bytes move while they are read: from memory to
// devices, and to the store. Bytes are accepted only with the checksums that they had when they
// were first located. When bytes have moved, everything is located anew. Each block moves a few
// times at most, so this ends.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/backend/located_part.h"
#include "tiers/file_system.h"
#include "tiers/local_chunks.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/spawn.h"
#include "tiers/status.h"
#include "tiers/store.h"
#include "tiers/unit_reader.h"

namespace gpusnap {

// Used by one thread, except for stop().
class RestoreReader {
 public:
  struct Request {
    CheckpointInfo checkpoint;
    uint32_t rank = 0;
    std::vector<SsdFolder> ssd;
    uint32_t shares = 1;  // processes that share these folders
    std::string run;      // for names of temporary files
    Spawn spawn;
    // Locates the rank's part on its way to the store; the checkpoint then has that rank's manifest
    // without extents. Empty: the store has the part.
    LocatePart locate;
  };

  // `files` and `store` outlive it.
  RestoreReader(FileSystem& files, Store& store, Request request,
                std::unique_ptr<ReadBuffers> buffers);
  RestoreReader(const RestoreReader&) = delete;
  RestoreReader& operator=(const RestoreReader&) = delete;
  ~RestoreReader();

  // Starts reading ahead. Failures are ignored: open() and read_all() meet them again.
  void begin();
  // Stops reading ahead. Does not wait. Any thread.
  void stop();

  // Ends reading ahead and returns the contents of the checkpoint.
  Result<const Contents*> open();
  // As Store::read_all(). Called once, after open(). Each byte is taken once, wherever it comes
  // from.
  Status read_all(const TakePieces& take);
  const LocalChunks::Counts& counts() const { return near_.counts; }
  // Returns whether the store does not have the checkpoint yet, as far as known. After open().
  bool is_pending() const { return static_cast<bool>(request_.locate) && !is_in_store_; }
  // Time for which open() and read_all() have waited for files.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  // The bytes of a range that were taken: end by begin.
  using Taken = std::map<uint64_t, uint64_t>;

  Status find();
  Result<Contents> resolve(LocalChunks& near);
  Result<Contents> resolve_located(LocalChunks& near);
  Result<Contents> resolve_stored(LocalChunks& near);
  const Manifest* manifest_of_request() const;
  Status read_from(Contents contents, LocalChunks near);
  bool has_changed(const Manifest& before, const Manifest& now) const;
  bool is_needed(uint32_t range, uint64_t offset, uint64_t size) const;
  std::vector<PlacedExtent> needed(const std::vector<PlacedExtent>& pieces) const;
  void note_taken(const ReadPiece& piece);
  Status read_once(const TakePieces& take, bool& take_failed);
  void end_ahead();
  std::unique_ptr<AheadFiles> make_files() const;
  Result<std::unique_ptr<BulkFile>> make_file(const SsdFolder& folder) const;

  FileSystem& files_;
  Store& store_;
  const Request request_;
  const std::unique_ptr<ReadBuffers> buffers_;
  // Reads use the last one. Callers of open() have the first one; it stays.
  std::list<Contents> contents_;
  LocalChunks near_;
  bool is_in_store_ = false;         // it has arrived there after it was in flight
  uint64_t places_ = 0;              // a checksum of where all of it was located last
  std::map<uint32_t, Taken> taken_;  // by range; of a checkpoint in flight
  uint64_t taken_bytes_ = 0;
  std::unique_ptr<UnitReader> reader_;
  Join ahead_;           // empty: nothing is read ahead
  Status ahead_status_;  // of its thread
  int64_t waited_ns_ = 0;
};

}  // namespace gpusnap
