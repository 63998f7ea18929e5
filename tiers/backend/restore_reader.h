// SPDX-License-Identifier: Apache-2.0
//
// Reads a checkpoint for its restore. Which bytes that needs, and in which order, is known long
// before the memory is there that they go to: so reading may begin at once, on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/near_chunks.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/spawn.h"
#include "tiers/status.h"
#include "tiers/store.h"
#include "tiers/unit_reader.h"

namespace gpusnap {

// One thread's, but for stop().
class RestoreReader {
 public:
  struct Request {
    CheckpointInfo checkpoint;
    uint32_t rank = 0;
    std::vector<SsdFolder> ssd;
    uint32_t shares = 1;  // processes that may use those at the same time
    std::string run;      // names files, for as long as they have names
    Spawn spawn;
  };

  // `files` and `store` outlive it.
  RestoreReader(FileSystem& files, Store& store, Request request,
                std::unique_ptr<ReadBuffers> buffers);
  RestoreReader(const RestoreReader&) = delete;
  RestoreReader& operator=(const RestoreReader&) = delete;
  ~RestoreReader();

  // Reads ahead from now on. Failures are nothing: they come again, and count, below.
  void begin();
  // Begins no more reads, and waits for nothing. Any thread.
  void stop();

  // The contents of the checkpoint. Reading ahead has ended when it returns.
  Result<const Contents*> open();
  // As Store::read_all(), once, after open().
  Status read_all(const TakePieces& take);
  const NearChunks::Counts& counts() const { return near_.counts; }
  // For how long open() and read_all() have waited for files.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  Status find();
  void end_ahead();
  std::unique_ptr<AheadFiles> make_files() const;
  Result<std::unique_ptr<BulkFile>> make_file(const SsdFolder& folder) const;

  FileSystem& files_;
  Store& store_;
  const Request request_;
  const std::unique_ptr<ReadBuffers> buffers_;
  std::optional<Contents> contents_;
  NearChunks near_;
  std::unique_ptr<UnitReader> reader_;
  Join ahead_;           // empty: nothing is read ahead
  Status ahead_status_;  // of its thread
  int64_t waited_ns_ = 0;
};

}  // namespace gpusnap
