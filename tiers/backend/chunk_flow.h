// The way of chunks through the tiers: consecutive slots of one part become a chunk, placement says
// where it waits for its flush, and a few chunks at a time are flushed to the store: how many, the
// store's throughput decides (placement/flush_control.h), and flush_order.h in which order.
// Placement decides as VeloC's algorithm 2 does (placement/placement.h).
//
// Nothing can wait for ever, and the store does not wait for chunks to fill that cannot: where no
// slot is free, or somebody waits for a place, chunks in the cache are closed although they are not
// full, until as many are flushed as may be.
//
// Used by one thread.
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
    // At the same time: within these bounds.
    uint32_t least_flushes = 1;
    uint32_t most_flushes = kMostFlushes;
    uint32_t known_flushes = 0;  // the best for an earlier backend; 0: not known
  };
  struct Actions {
    // The slot's bytes are not needed any more; `stored`: because they are in a file. Any thread.
    std::function<void(uint32_t slot, bool stored)> release;
    // Makes `then` be called by the flow's thread. Any thread.
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

  // A chunk that an earlier backend left on the tier: it takes room there, and is flushed as others
  // are.
  void adopt(const std::shared_ptr<CheckpointReceiver>& part, size_t tier, const FoundChunk& found);
  // A slot that the part expects.
  void arrived(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot, uint64_t sequence);
  // Room for a chunk that the part's client writes directly, on a tier behind the cache: makes its
  // file. `opened` is called with its number and path, by the flow's thread; no path, also at once:
  // there is no room, or no file. Never where the part ends before.
  using Opened = std::function<void(uint32_t file_number, const std::string& path)>;
  void reserve_direct(const std::shared_ptr<CheckpointReceiver>& part, Opened opened);
  // A slot that the part expects: it says that the client has written that chunk, to a file on that
  // tier.
  void arrived_direct(const std::shared_ptr<CheckpointReceiver>& part, uint32_t slot,
                      uint64_t sequence, size_t tier, DirectChunk chunk);
  // Room of a chunk on a tier behind the cache for what is no chunk; nothing: there is none now.
  std::optional<size_t> reserve_spill() { return placement_.reserve_behind_first(); }
  void give_back_spill(size_t tier) { take(placement_.abandoned(tier)); }
  // No more slots of the part will arrive.
  void seal(const CheckpointReceiver& part);
  // The part has ended with that status: nothing of it is on its way. Releases what it still holds.
  void drop(const CheckpointReceiver& part, const Status& status);
  // The tier has failed, and gets no chunks until it is resumed.
  void suspend(size_t tier) { take(placement_.suspend(tier)); }
  void resume(size_t tier) { take(placement_.resume(tier)); }
  // To be called now and then. `no_slot`: no slot is free.
  void relieve(bool no_slot);

  // Whether waits of programs are to be told: chunks are being flushed, and their number adapts.
  bool wants_waits() const { return flushing_ > 0 && control_.adapts(); }
  void waited(uint32_t threads) { control_.waited(threads); }

  // Chunks that were given that tier. Any thread.
  uint64_t placed(size_t tier) const { return placed_.at(tier); }
  // As many chunks may be flushed at the same time now. Any thread.
  uint32_t flushes() const { return flushes_; }
  // See FlushControl::best(). Any thread.
  uint32_t best_flushes() const { return best_flushes_; }

 private:
  enum class State {
    kWaiting,   // for a place
    kReserved,  // the client may write it directly
    kChecking,  // it has
    kWriting,   // has one; more slots may come
    kQueued,    // closed; waits for its flush
    kFlushing,  //
  };
  struct Held {
    uint32_t slot = 0;
    uint64_t sequence = 0;
  };
  // Counters that any thread updates while the part has slots of a chunk.
  struct OnWay {
    std::atomic<size_t> left{0};
    std::atomic<uint64_t> bytes{0};   // stored
    std::atomic<bool> failed{false};  // some are not
  };
  struct Chunk {
    std::shared_ptr<CheckpointReceiver> part;
    State state = State::kWaiting;
    size_t tier = 0;
    bool closed = false;
    uint64_t size = 0;                 // slots in all
    uint64_t bytes = 0;                // in them
    std::vector<Held> slots;           // not with the part yet
    std::shared_ptr<PlacedFile> file;  // on a tier behind the cache; null for one that was adopted
    uint32_t file_number = 0;          // there
    int64_t since_ns = 0;              // where the time of its flush begins
    std::shared_ptr<OnWay> on_way = std::make_shared<OnWay>();
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by number: the order of their beginnings

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
  // While flushes are fewer than the store could take, a chunk's wait for its own is part of what
  // the store costs a writer. Where their number follows the store it is not: that one waits long
  // only says that others came first.
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
  std::atomic<uint32_t> flushes_, best_flushes_;  // as it says
};

}  // namespace gpusnap
