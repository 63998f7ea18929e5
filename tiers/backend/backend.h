// SPDX-License-Identifier: Apache-2.0
// The backend: takes the slots that clients hand over in a staging area and makes checkpoints and
// journals of them, even after a client has died. It runs in a process of its own (gpusnapd) or on
// a thread of the program.
//
//   StagingServer -> Backend (look, reap, grow) -> CheckpointReceiver, JournalReceiver
//                    ChunkFlow, Placement: which slots go where, and when
//
// Its state lies in the staging area and in the block logs (block_log.h) alone, so another backend
// can go on from where this one was killed.
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

// A snapshot of the counters. Each counter is read by itself.
struct BackendCounters {
  std::vector<TierCounters> tiers;  // chunks now; the cache first
  std::vector<uint64_t> placed;     // chunks placed on each tier since the backend began
  double flush_bandwidth = 0;       // bytes per second, see Placement
  uint64_t waiting = 0;             // chunks that wait for a place
  uint32_t flushes = 0;             // current limit of concurrent flushes
  uint64_t checkpoints = 0;         // in flight
  uint64_t journals = 0;
  uint64_t committed = 0;  // checkpoints since the backend began
  uint64_t failed = 0;
};

inline constexpr double kUncalibratedBytesPerSecond = 1e9;

class Backend {
 public:
  // The most threads that exist at the same time, not counting the thread of run(), the workers of
  // one checkpoint, the forerunners and kIoThreads: one for a journal and one for its spills; one
  // for a checkpoint and two for its chunks; the same for a checkpoint that is being abandoned, and
  // one worker of it; the same for merging, and one worker of it.
  static constexpr int kThreads = 11;
  struct Options {
    Spawn spawn;  // empty: threads of the system's; see kThreads for how many are needed
    uint64_t chunk_bytes = 64 << 20;  // GPUSNAP_CHUNK
    // The cache: bytes of the staging area in which chunks may wait; 0: chosen by the backend.
    uint64_t cache_bytes = 0;
    // GPUSNAP_SSD. A folder that cannot be used is left out with a warning. The model of a device
    // comes from its calibration. Without one that fits, the device is assumed to take
    // kUncalibratedBytesPerSecond from all writers together.
    std::vector<SsdFolder> ssd;
    PlacementPolicy policy = PlacementPolicy::kHybridOpt;
    // Name of the backend's folder on these devices: a valid file name that no other running
    // backend uses. A later backend of the same name finds the files that this one left.
    std::string name = "thread-" + std::to_string(::getpid());
    uint32_t workers = 1;  // of each checkpoint: they check and compress blocks
    uint32_t writes = 8;   // of each checkpoint, in flight at the same time
    // GPUSNAP_FLUSHES: concurrent flushes of all checkpoints; empty: adapted to the store. A flush
    // from a device takes memory of two slots' size. If the number is adapted, all flushes together
    // take at most a quarter of the area's size, or eight slots' size.
    std::optional<uint32_t> flushes;
    // How the staging area grows, by how many threads, and by how many bytes at a time.
    GrowthWay growth = GrowthWay::kAhead;
    uint32_t forerunners = 1;
    uint64_t growth_bytes = 32 << 20;
    // A part that stays in memory goes to the store this long after its program's end.
    std::chrono::nanoseconds keeps = std::chrono::seconds(10);
    // The backend closes the area after this long without clients and streams; 0: never.
    std::chrono::nanoseconds idle{0};
    // Parts that wait on local tiers for a store that failed are tried again after this long.
    std::chrono::nanoseconds try_again = std::chrono::seconds(5);
    // Protects committed parts against the loss of this node; outlives it. Null: none.
    Protection* protection = nullptr;
    // Called with one line for the user about a failure that no client asks about. Any thread.
    std::function<void(const std::string&)> warn;
    // The same for things that work but could be faster.
    std::function<void(const std::string&)> note;
  };

  // Becomes the only server of `memory`. `files` and `memory` outlive the backend.
  static Result<std::unique_ptr<Backend>> make(FileSystem& files, StagingMemory& memory,
                                               Options options);
  virtual ~Backend() = default;  // after run() has returned

  // Serves until the area is closed (Options::idle), drain() has completed, or stop(). Called once.
  // If the backend cannot go on, it warns and leaves the area without a server.
  virtual void run() = 0;
  // Lets run() return as soon as there is no client and no stream any more. Any thread.
  virtual void drain() = 0;
  // Lets run() return soon. Everything in flight stays in the area and in files, for the next
  // backend. Any thread; may be called by a signal handler.
  virtual void stop() = 0;
  // Any thread.
  virtual BackendCounters counters() const = 0;
};

}  // namespace gpusnap
