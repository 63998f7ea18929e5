// The zones of all device memory, and what one logical snapshot has still to do for each: GPU
// Snapshot's memory zone monitor (section 4.1), told of writes by hooked calls instead of hardware.
//
// At a cut the owner says what memory there is and which zones have to be saved: they are pending.
// From then on whoever wants to save a zone claims it: the offloader, in the order that suits it,
// and the calls that are about to write, for the zones that they would overwrite. A claim is a
// Transfer; its zones are copying until it is finished. A call may go ahead once every zone that it
// may write is neither pending nor copying, or the device has been told to wait for that.
//
// Zones that a kernel of ours gathers are an exception: no call may wait for a kernel. A call takes
// such zones over and claims them for itself; what the kernel brings of them is not used. So it
// does with zones that are on their way to the host, where there is room for them on the device.
//
// Pure logic: no CUDA, no I/O. Thread-safe but for what says otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tracker/memory_map.h"
#include "tracker/write_set.h"
#include "tracker/zone_table.h"

namespace gpusnap {

// One range of device memory, from its allocation to its end: a life.
struct TrackedRange {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t life = 0;     // of MemoryRange
  uint64_t context = 0;  // the driver's handle
  ZoneTable zones;
  // A fingerprint a zone: at the last cut, and as the last complete snapshot has it. Empty where
  // there is none. 256 KiB for a GiB of memory in zones of 64 KiB.
  std::vector<uint64_t> at_cut;
  std::vector<uint64_t> saved;
  bool in_saved = false;  // the last complete snapshot has this life
};

// A piece of a range on its way, never more than one run of zones.
struct TransferPiece {
  uint32_t range = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t place = 0;  // what Room gave: where it goes
  bool stolen = false;
};

struct Transfer {
  enum class Kind : uint8_t { kDirect, kGather, kDuplicate };
  enum class State : uint8_t { kStarting, kFlying, kFinished };
  Kind kind = Kind::kDirect;
  State state = State::kStarting;
  uint64_t context = 0;
  uint64_t bytes = 0;
  bool awaited = false;  // by calls, which may write when it has ended
  std::vector<TransferPiece> pieces;
  // The driver's event that tells when the transfer is done; it goes back to where it came from
  // with the last user. Set before kFlying; null: the copy could not be started.
  std::shared_ptr<void> event;
};
using TransferPtr = std::shared_ptr<Transfer>;

class SnapshotZones {
 public:
  // Where the zones go that a call claims. Called with the lock held: must not block nor call back.
  class Room {
   public:
    virtual ~Room() = default;
    // Room for up to `bytes` of memory of `context`: how many bytes it gave, a whole number of
    // zones or all of `bytes`, and their place. 0: none.
    virtual uint64_t take(uint64_t context, uint64_t bytes, uint64_t* place) = 0;
    virtual Transfer::Kind kind() const = 0;
  };
  struct Claim {
    std::vector<TransferPtr> claimed;    // by this call, one a context; to be started by the caller
    std::vector<TransferPtr> in_flight;  // begun by others; they may still be starting
    bool left = false;                   // zones of the set are still pending: there was no room
  };

  // The paper's global register (4.1.4): false when no zone is pending or copying. One load.
  bool active() const { return active_.load(std::memory_order_acquire); }

  // At the cut, while no call and no transfer is on its way. Takes over what the map has now:
  // ranges that have ended go, new ones come with all their zones dirty. Other zones than before:
  // all anew.
  void update(const MemoryMap& memory, uint64_t zone_bytes);
  // In order of address. Only between update() and begin(), or by index for what never changes.
  std::vector<TrackedRange>& ranges() { return ranges_; }
  const std::vector<TrackedRange>& ranges() const { return ranges_; }

  // Makes zones pending and the snapshot active. `full`: all of them; else those of which
  // `changed(range, zone)` is true and all of ranges that the last complete snapshot lacks.
  // Returns the bytes that are pending.
  uint64_t begin(bool full, const std::function<bool(const TrackedRange&, uint64_t)>& changed);
  // The snapshot is complete, or not to be: what it had saved counts, or what it had taken is dirty
  // again. Nothing is pending any more; transfers under way may still be finished.
  void complete();
  void drop();
  // Nothing has changed since a snapshot which is complete, and which has the ranges of which
  // `in_saved(range)` is true. After update(), in place of a snapshot.
  void adopt(const std::function<bool(const TrackedRange&)>& in_saved);

  // GPUSNAP_DIRTY=calls: a call is about to write.
  void mark_dirty(const WriteSet& writes);

  // Claims what `writes` touches, as far as `room` has any. `freed`: the memory is about to go, so
  // in_flight also has transfers whose zones were taken over.
  Claim claim(const WriteSet& writes, Room& room, bool freed);
  // Treatment of runs that are not large, once no large one is left: they are left as well,
  // gathered by a kernel, or copied one by one.
  enum class Scattered : uint8_t { kLeave, kGather, kCopy };
  // Claims what suits the offloader, at most `most` bytes, a whole number of zones: a run of at
  // least `large` bytes, or the next part of one, as long as there is one (but for kGather, which
  // then claims nothing); else as many runs as there is room for. Null when there is none of this
  // context. `place`s count up from 0, for kGather by whole zones.
  TransferPtr claim_next(uint64_t context, uint64_t most, uint64_t large, Scattered scattered);
  // Bytes of zones of the context that are pending, the last zone of a range counted as a whole
  // one.
  uint64_t pending_bytes(uint64_t context) const;
  // Zones of the context are pending, or claimed and not finished.
  bool busy(uint64_t context) const;
  static constexpr size_t kMostPieces = 4096;  // of a transfer that claim_next() makes
  // Whether a zone of the set is pending or copying.
  bool touches(const WriteSet& writes);

  // The transfer's event has been recorded, so that others may wait for it.
  void started(const TransferPtr& transfer, std::shared_ptr<void> event);
  // Returns once it has been started, or dropped.
  void wait_started(const TransferPtr& transfer);
  // Its copies are made (or have failed). `publish`: its zones may be written from now on; else
  // they stay copying until publish_all().
  void finished(const TransferPtr& transfer, bool publish);
  // Zones of all finished transfers may be written.
  void publish_all();

 private:
  struct Part {
    uint32_t range = 0;
    uint64_t from = 0, to = 0;  // bytes in the range
  };
  // Where claim_next() goes on, by its two ways of looking.
  struct Cursor {
    uint32_t range = 0;
    uint64_t offset = 0;
    bool inside = false;  // a large run ended here, or more of it follows
  };
  struct Cursors {
    Cursor large, small;
  };
  template <class Visit>
  void for_parts(const WriteSet& writes, Visit&& visit);  // visit(index, from, to)
  bool overlaps(const Transfer& transfer, const std::vector<Part>& parts, bool stolen_too) const;
  void steal(const std::vector<Part>& parts);
  // Claims a run as far as there is room: the bytes from its beginning on.
  uint64_t take_run(uint32_t range, const ZoneRun& run, Room& room,
                    std::vector<TransferPtr>& claimed);
  void take_over(const std::vector<Part>& parts, Room& room, std::vector<TransferPtr>& claimed);
  void clear_bits();
  void search_large(Cursor& cursor, uint64_t most, uint64_t large, Transfer& transfer);
  void search_small(Cursor& cursor, uint64_t most, uint64_t align, Transfer& transfer);
  void add_run(uint32_t index, const ZoneRun& run, uint64_t place, Transfer& transfer);
  void settle();  // active_ from the counts

  std::atomic<bool> active_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TrackedRange> ranges_;
  std::vector<TransferPtr> transfers_;  // claimed and not finished
  uint64_t zone_bytes_ = 0;
  std::map<uint64_t, Cursors> cursors_;  // by context
};

}  // namespace gpusnap
