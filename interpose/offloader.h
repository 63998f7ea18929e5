// Moves the pending zones of one context to host memory while the program computes (GPU Snapshot,
// sections 4.1.3 and 4.3.1): large runs straight into slots of the staging pool, scattered zones
// gathered by a kernel into a double buffer first, and what calls had duplicated on the device.
//
// It runs on a thread of ours, for one snapshot. Calls that copy zones themselves hand their copies
// over to it: it looks after everything that is on its way.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/device_lane.h"
#include "tiers/staging.h"
#include "tiers/store.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

class Snapshots;

class Offloader {
 public:
  Offloader(Snapshots& snapshots, DeviceLane& lane);

  // Until nothing of this context has to be saved any more, or the snapshot has failed and nothing
  // is on its way.
  void run();

  // Any thread: zones are on their way to blocks of the device buffer. The transfer's event has
  // been recorded.
  void add_duplicates(const TransferPtr& transfer);
  // Any thread: zones are on their way to a slot, in order of the transfer's pieces.
  void add_flight(const TransferPtr& transfer, Slot* slot);

 private:
  // Bytes on their way into a slot.
  struct Flight {
    Slot* slot = nullptr;
    std::vector<TransferPiece> pieces;  // as they lie in the slot
    TransferPtr transfer;               // null: from blocks
    std::shared_ptr<void> event;        // of a flight from blocks
    GatherBuffer* buffer = nullptr;     // busy until it is done
    std::vector<BlockPool::Run> blocks;
  };
  struct Duplicate {
    TransferPiece piece;
    BlockPool::Run blocks;
  };

  bool collect();
  void collect_copies();
  bool collect_flights(std::vector<Flight>& landed);
  void hand_over(Flight& flight);
  bool start_more();
  bool start_zones();
  bool start_duplicates();
  CUresult gather_pieces(Flight& flight);
  void launch(Flight flight, CUresult result);
  Slot* take_slot();
  uint64_t most_of_copy() const;  // bytes of one call
  bool done();

  Snapshots& snapshots_;
  DeviceLane& lane_;
  std::mutex mutex_;                 // of what other threads add
  std::vector<TransferPtr> copies_;  // to blocks, under way
  std::vector<Flight> added_;
  // The offloader's thread only.
  std::vector<Flight> flights_;
  std::vector<Duplicate> duplicates_;  // in blocks, to be moved
  std::chrono::steady_clock::time_point last_slot_;
};

}  // namespace gpusnap
