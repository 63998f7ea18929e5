// The backend: takes what clients hand over in a staging area and makes checkpoints and journals of
// it, whether they live or not. In a process of its own (gpusnapd) or on a thread of the program.
//
//   StagingServer -> Backend (look, reap, grow) -> CheckpointReceiver, JournalReceiver
//                    ChunkFlow, Placement: which slots go where, and when
//
// Its own state is nowhere but in the staging area and in the block logs (block_log.h), so another
// one can go on from where it was killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "tiers/backend/growth.h"
#include "tiers/backend/protection.h"
#include "tiers/file_system.h"
#include "tiers/placement/placement.h"
#include "tiers/placement/tier_settings.h"
#include "tiers/spawn.h"
#include "tiers/staging/memory.h"
#include "tiers/status.h"

namespace gpusnap {

// At one moment.
struct BackendCounters {
  std::vector<TierCounters> tiers;  // chunks that are there now; the cache first
  std::vector<uint64_t> placed;     // chunks that were placed there since it began
  double flush_bandwidth = 0;       // bytes per second, see Placement
  uint64_t waiting = 0;             // chunks that wait for a place
  uint32_t flushes = 0;             // as many chunks may be flushed at the same time now
  uint64_t checkpoints = 0;         // on their way
  uint64_t journals = 0;
  uint64_t committed = 0;  // checkpoints since it began
  uint64_t failed = 0;
};

inline constexpr double kUncalibratedBytesPerSecond = 1e9;

class Backend {
 public:
  // At most as many at the same time, besides those that run() is called on, a checkpoint's
  // workers, forerunners and kIoThreads: a journal's and one for its spills, a checkpoint's and two
  // for its chunks, those of one that is being given up, which has one worker more, and those of
  // merging, which has one, too.
  static constexpr int kThreads = 11;
  struct Options {
    Spawn spawn;  // where it is given: of no more threads than kThreads and those besides
    uint64_t chunk_bytes = 64 << 20;  // GPUSNAP_CHUNK
    // The cache: bytes of the staging area that chunks may wait in; 0: as many as is sensible.
    uint64_t cache_bytes = 0;
    // GPUSNAP_SSD: one that cannot be used is left out, and warned of. Models come from their
    // calibrations; where there is none that fits, a device is thought to take
    // kUncalibratedBytesPerSecond from all writers together.
    std::vector<SsdFolder> ssd;
    PlacementPolicy policy = PlacementPolicy::kHybridOpt;
    // Name of the backend's folder on these devices; has to be a valid file name. No other running
    // backend has this name. A later backend of the same name finds what this one left.
    std::string name = "thread-" + std::to_string(::getpid());
    uint32_t workers = 1;  // of a checkpoint: look at blocks and compress them
    uint32_t writes = 8;   // of a checkpoint, on their way at the same time
    // GPUSNAP_FLUSHES: chunks of all checkpoints at the same time; nothing: as many as pay. Each
    // that comes from a device takes memory of two slots' size; where their number is left to the
    // backend, all of them together at most a quarter of the area's, or eight slots' size.
    std::optional<uint32_t> flushes;
    // How the staging area grows, with how many threads, and how many bytes each takes at a time.
    GrowthWay growth = GrowthWay::kAhead;
    uint32_t forerunners = 1;
    uint64_t growth_bytes = 32 << 20;
    // So long after its program's end a part that stays in memory goes to the store.
    std::chrono::nanoseconds keeps = std::chrono::seconds(10);
    // With nobody there for so long it closes the area; 0: never.
    std::chrono::nanoseconds idle{0};
    // After so long, what a store that failed has left on local tiers is tried again.
    std::chrono::nanoseconds try_again = std::chrono::seconds(5);
    // Protects committed parts against the loss of this node; outlives it. Null: none.
    Protection* protection = nullptr;
    // One line that a user should see, of what fails without anybody who asks. Any thread.
    std::function<void(const std::string&)> warn;
    // Likewise, of what works and might be faster.
    std::function<void(const std::string&)> note;
  };

  // `files` and `memory` outlive it. The memory's only server from now on.
  static Result<std::unique_ptr<Backend>> make(FileSystem& files, StagingMemory& memory,
                                               Options options);
  virtual ~Backend() = default;  // run() has returned

  // Serves until the area was closed (idle), until drain() has come to its end, or until stop().
  // Once. Where it cannot go on it says why and leaves the area without a server.
  virtual void run() = 0;
  // run() returns when no client and no stream is there any more. Any thread.
  virtual void drain() = 0;
  // run() returns soon, and what is on its way stays as it is: in the area and in files, for the
  // next backend. Any thread, a signal's handler too.
  virtual void stop() = 0;
  // Any thread.
  virtual BackendCounters counters() const = 0;
};

}  // namespace gpusnap
