// Moves the pending zones of one context to host memory while the program computes (GPU Snapshot,
// sections 4.1.3 and 4.3.1): large runs straight into slots of the staging pool; scattered zones by
// way of the device buffer, where a kernel gathers them; and what calls had duplicated there. Zones
// in the device buffer are saved: nobody waits for their way to the host.
//
// It runs on a thread of ours, for one snapshot. Calls that copy zones themselves hand their copies
// over to it: it looks after everything that is on its way.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "interpose/direct/direct_offload.h"
#include "interpose/snapshot/borrower.h"
#include "interpose/snapshot/copy_throttle.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/peer_sender.h"
#include "interpose/snapshot/zone_copies.h"
#include "tiers/staging/pool.h"
#include "tiers/store.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

class SnapshotRun;

class Offloader {
 public:
  // They outlive it. `copies`: the program's own, to the host.
  Offloader(SnapshotRun& snapshot, ProgramCopies& copies, DeviceLane& lane);

  // Until nothing of this context has to be saved any more, or the snapshot has failed and nothing
  // is on its way.
  void run();

  // Any thread: zones are on their way to blocks of the device buffer. The transfer's event has
  // been recorded.
  void add_duplicates(const TransferPtr& transfer);
  // Any thread: zones are on their way to a slot, in order of the transfer's pieces.
  void add_flight(const TransferPtr& transfer, Slot* slot);
  // Any thread: zones that lie in guests' blocks of this buffer, which outlives it: those of peers
  // in this device's own, or this context's in one that another process lends. They go to the host
  // behind what is in this device's own blocks.
  void add_guest(PeerBuffer& buffer, const BlocksOfZones& zones);

  // Before run(): it is this lane of the balancer's, which outlives it.
  void balance(Balancer& balancer, size_t number);
  // Its pending zones may go to the buffer of this peer, too.
  void add_peer(size_t number, DeviceLane& lane, Offloader& offloader);
  // The same of a buffer that another process may lend: this offloader moves what is there, too.
  void add_lent(size_t number, LentBuffer& buffer);
  // Before run(): asks the node's processes for that.
  void borrow(Borrower& borrower) { borrower_ = &borrower; }
  // For calls of any thread: null without a balancer.
  PeerSender* sender() { return sender_.get(); }

 private:
  // A slot that is being filled by one flight after the other.
  struct Fill {
    Slot* slot = nullptr;
    uint64_t used = 0;                              // bytes, in flight or landed
    std::chrono::steady_clock::time_point since{};  // when its slot was wanted; 0: by a call
    size_t flights = 0;                             // on their way
    std::vector<TransferPiece> pieces;              // landed; `place` is theirs in the slot
  };
  // Bytes on their way into a slot.
  struct Flight {
    std::shared_ptr<Fill> fill;
    uint64_t place = 0;                 // in the slot, of a transfer's first byte
    std::vector<TransferPiece> pieces;  // from blocks: as they lie in the slot
    TransferPtr transfer;               // null: from blocks
    std::shared_ptr<void> event;        // of a flight from blocks
    std::vector<BlockPool::Run> blocks;
    PeerBuffer* guests_of = nullptr;  // has the blocks; null: they are this device's own
    bool from_direct = false;         // what DirectOffload has left
  };
  // Scattered zones on their way into blocks.
  struct Gathering {
    TransferPtr transfer;
    GatherTable* table = nullptr;
    uint64_t first = 0;  // block of place 0
  };

  // Null where nothing goes to local tiers directly.
  DirectOffload* direct();
  bool start_direct();
  bool collect_direct();
  bool collect_call();
  bool start_left();
  void learn(const Fill& fill);
  bool collect();
  void collect_copies();
  void collect_gatherings();
  // In blocks of the device buffer, from `first` on: to be moved.
  void add_duplicate(const TransferPiece& piece, uint64_t first);
  bool collect_flights();
  void hand_over(Fill& fill);
  bool start_more();
  bool send_to_peers();
  bool start_to_host();
  bool start_zones();
  bool start_gathering();
  // Zones in blocks of the buffer: this device's own, or guests.
  bool start_duplicates();
  bool start_guests();
  bool start_from_blocks(std::deque<BlocksOfZones>& zones, PeerBuffer* guests_of);
  bool take_from_blocks(std::deque<BlocksOfZones>& zones, Flight& flight,
                        std::vector<ZoneCopy>& copies);
  void give_back(BlockPool::Run blocks, PeerBuffer* guests_of);
  void ask_for_loans();
  void launch(Flight flight, CUresult result);
  // Where the next flight lands; null when no slot is to be had.
  Fill* open_fill();
  void close_fill();
  Slot* take_slot();
  void give_up();               // what is not on its way
  uint64_t most_bytes() const;  // of the next flight
  size_t most_flights() const;
  std::chrono::nanoseconds pause() const;
  bool done();

  SnapshotRun& snapshot_;
  DeviceLane& lane_;
  std::mutex mutex_;                 // of what other threads add
  std::vector<TransferPtr> copies_;  // to blocks, under way
  std::vector<Flight> added_;
  std::vector<std::pair<PeerBuffer*, BlocksOfZones>> added_guests_;
  // The offloader's thread only.
  CopyThrottle copy_throttle_;
  std::vector<Flight> flights_;
  std::vector<Gathering> gatherings_;
  std::deque<BlocksOfZones> duplicates_;                     // to be moved, the oldest first
  std::map<PeerBuffer*, std::deque<BlocksOfZones>> guests_;  // likewise; none is empty
  Balancer* balancer_ = nullptr;                             // null: there are no peers
  Borrower* borrower_ = nullptr;                             // null: no other process is asked
  size_t number_ = 0;                                        // of the balancer's lanes
  bool has_own_ = true;                 // zones of this context have still to be saved
  std::unique_ptr<PeerSender> sender_;  // null: as balancer_
  std::shared_ptr<Fill> fill_;          // that is open
  std::chrono::steady_clock::time_point last_slot_;
  std::optional<DirectOffload> direct_;
  bool left_flies_ = false;
  std::optional<std::chrono::steady_clock::time_point> wanted_;  // a slot, since then
  std::chrono::steady_clock::time_point last_fill_;              // was handed over
};

}  // namespace gpusnap
