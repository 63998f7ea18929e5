// SPDX-License-Identifier: Apache-2.0
// Moves chunks through the tiers. Consecutive slots of one part become a chunk. Placement, which
// follows VeloC's algorithm 2 (placement/placement.h), decides where the chunk waits for its flush.
// A few chunks at a time are flushed to the store: the store's throughput decides how many
// (placement/flush_control.h), and flush_order.h decides in which order.
//
// No chunk waits for ever: if no slot is free, or a chunk waits for a place, chunks in the cache
// are closed although they are not full, until as many are being flushed as are allowed.
//
// Not thread-safe: used by one thread, the flow's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/flush_order.h"
#include "tiers/clock.h"
#include "tiers/placement/flush_control.h"
#include "tiers/placement/placement.h"
#include "tiers/staging/server.h"

namespace gpusnap {

class ChunkFlow {
 public:
  struct Options {
    uint64_t chunk_slots = 16;
    // Bounds of the number of concurrent flushes.
    uint32_t least_flushes = 1;
    uint32_t most_flushes = kMostFlushes;
    uint32_t known_flushes = 0;  // the best number for an earlier backend; 0: not known
  };
  struct Actions {
    // Releases a slot whose bytes are not needed any more; `stored`: they are in a file. Any
    // thread.
    std::function<void(uint32_t slot, bool stored)> release;
    // Lets the flow's thread call `then`. Any thread.
    std::function<void(std::function<void()> then)> post;
  };

  ChunkFlow(Placement& placement, StagingServer& server, Clock& clock, const Options& options,
            Actions actions)
      : placement_(placement),
        server_(server),
        clock_(clock),
        options_(options),
        actions_(std::move(actions)),
        placed_(placement.tiers()),
        control_(options.least_flushes, options.most_flushes, options.known_flushes),
        flushes_(control_.flushes()),
        best_flushes_(control_.best()) {}

  // Takes over a chunk that an earlier backend left on the tier. It takes room there and is flushed
  // like other chunks.
  void adopt(const std::shared_ptr<CheckpointReceiver>& part, size_t tier, const FoundChunk& found);
  // A slot that the part expects.
  void arrived(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot, uint64_t sequence);
  // Reserves room on a tier after the cache for a chunk that the part's client writes directly, and
  // makes its file. `opened` is called by the flow's thread with the file's number and path, or
  // with an empty path, possibly at once, if there is no room or no file. It is not called if the
  // part ends before.
  using Opened = std::function<void(uint32_t file_number, const std::string& path)>;
  void reserve_direct(const std::shared_ptr<CheckpointReceiver>& part, Opened opened);
  // A slot that the part expects. It says that the client has written that chunk to a file on that
  // tier.
  void arrived_direct(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot,
                      uint64_t sequence, size_t tier, DirectChunk chunk);
  // Reserves the room of one chunk on a tier after the cache for other data and returns the tier.
  // Empty: there is no room now.
  std::optional<size_t> reserve_spill() { return placement_.reserve_behind_first(); }
  void give_back_spill(size_t tier) { take(placement_.abandoned(tier)); }
  // No more slots of the part will arrive.
  void seal(const CheckpointReceiver& part);
  // The part has ended with that status, and none of its slots are in flight. Releases its slots.
  void drop(const CheckpointReceiver& part, const Status& status);
  // The tier has failed: it gets no chunks until resume().
  void suspend(size_t tier) { take(placement_.suspend(tier)); }
  void resume(size_t tier) { take(placement_.resume(tier)); }
  // Closes chunks early where that is needed. To be called regularly. `no_slot`: no slot is free.
  void relieve(bool no_slot);

  // Returns whether waited() is to be called: chunks are being flushed, and their number adapts.
  bool wants_waits() const { return flushing_ > 0 && control_.adapts(); }
  void waited(uint32_t threads) { control_.waited(threads); }

  // Chunks that were placed on that tier. Any thread.
  uint64_t placed(size_t tier) const { return placed_.at(tier); }
  // The current limit of concurrent flushes. Any thread.
  uint32_t flushes() const { return flushes_; }
  // See FlushControl::best(). Any thread.
  uint32_t best_flushes() const { return best_flushes_; }

 private:
  enum class State {
    kWaiting,   // for a place
    kReserved,  // the client may write it directly
    kChecking,  // the client has written it, and its part checks it
    kWriting,   // has a place; more slots may come
    kQueued,    // closed; waits for its flush
    kFlushing,
  };
  struct Held {
    uint32_t slot = 0;
    uint64_t sequence = 0;
  };
  // Counters that any thread updates while the part holds slots of a chunk.
  struct OnWay {
    std::atomic<size_t> left{0};
    std::atomic<uint64_t> bytes{0};   // stored
    std::atomic<bool> failed{false};  // some slots were not stored
  };
  struct Chunk {
    std::shared_ptr<CheckpointReceiver> part;
    State state = State::kWaiting;
    size_t tier = 0;
    bool closed = false;
    uint64_t size = 0;                 // slots in all
    uint64_t bytes = 0;                // in the slots
    std::vector<Held> slots;           // not handed over to the part yet
    std::shared_ptr<PlacedFile> file;  // on a tier after the cache; null for an adopted chunk
    uint32_t file_number = 0;          // on that tier
    int64_t since_ns = 0;              // begin of the time that counts for its flush
    std::shared_ptr<OnWay> on_way = std::make_shared<OnWay>();
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by number: in the order in which they began

  Chunks::iterator reserved(const CheckpointReceiver& part, uint32_t file_number);
  void direct_opened(uint64_t number, uint32_t file_number, const std::string& path,
                     const Opened& opened);
  void direct_stored(uint64_t number);
  void give_back_reserved(const CheckpointReceiver& part);
  Chunks::iterator open_chunk(const CheckpointReceiver& part);
  void take(const Result<Placement::Grants>& grants);
  void grant(uint64_t number, size_t tier);
  void hand_over(uint64_t number, Chunk& chunk);
  void opened(uint64_t number, const std::shared_ptr<PlacedFile>& file);
  void emptied(uint64_t number);
  void queue_if_written(uint64_t number, Chunk& chunk);
  void queue(uint64_t number, Chunk& chunk);
  void flush_some();
  void flushed(uint64_t number, uint64_t bytes);
  void give_up(uint64_t number, Chunk& chunk, const Status& status);
  void learn(uint64_t bytes);
  // Returns whether the time for which a chunk waits for its flush counts as time of the flush.
  // With a fixed number of flushes the wait is part of what the store costs a writer. With an
  // adapted number it only says that other chunks came first.
  bool counts_wait() const { return !control_.adapts(); }
  double seconds_of_flush(const Chunk& chunk) const;
  void tell_so_far();

  Placement& placement_;
  StagingServer& server_;
  Clock& clock_;
  const Options options_;
  const Actions actions_;
  std::vector<std::atomic<uint64_t>> placed_;
  uint64_t next_ = 1;
  Chunks chunks_;
  FlushOrder queue_;
  size_t flushing_ = 0;
  FlushControl control_;
  std::atomic<uint32_t> flushes_, best_flushes_;  // of control_, for other threads
};

}  // namespace gpusnap
