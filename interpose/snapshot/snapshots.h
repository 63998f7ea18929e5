// Logical snapshots (GPU Snapshot, section 4.1): at a cut the zones that must be saved are marked
// pending, and the program goes on. An offloader for each device (offloader.h) saves them in the
// background; a call that would overwrite one has it copied first, on a stream of ours, and its own
// stream waits for that copy. The snapshot has the memory at the cut, whatever the program does.
//
// The write sets of some calls are guesses. A wrong one is found: every zone's bytes, once on the
// host, are compared with the fingerprint that the zone had at the cut.
//
// The thread that makes the cut, while no other is inside a hooked call, may call begin(), adopt(),
// add_context() and forget_context(). Any thread may call before_write(), active() and
// wait_end().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interpose/direct/direct_storage.h"
#include "interpose/process/workers.h"
#include "interpose/record/program_copies.h"
#include "interpose/services/settings.h"
#include "interpose/snapshot/balancer.h"
#include "interpose/snapshot/borrower.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/offloader.h"
#include "interpose/snapshot/snapshot_run.h"
#include "tiers/backend/remote_writer.h"
#include "tiers/staging/pool.h"
#include "tracker/snapshot_zones.h"
#include "tracker/suspects.h"
#include "tracker/write_set.h"

namespace gpusnap {

// The side that waits for the copies that a call needs first: the stream on which the call writes,
// or the host if no stream orders the call (frees, unloads).
enum class Hold : uint8_t { kStream, kHost };

// How calls fared while zones of one snapshot were pending.
struct WriteCounts {
  CallCounts calls;
  Waits waits;
  uint64_t direct_bytes = 0;  // of the snapshot, that went directly to a local tier
  uint64_t peer_bytes = 0;    // that were saved by way of another device's buffer
};

class Snapshots {
 public:
  // `direct`: null where nothing goes to local tiers directly.
  Snapshots(const Driver& driver, const Settings& settings, Workers& workers, StagingPool& pool,
            DirectStorage* direct = nullptr);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // A context of the program is seen for the first time; it is current.
  void add_context(CUcontext context);
  // It has ended. before_write() has been told that everything goes.
  // Returns what is left of ours in it; its end waits for all devices, so nobody may hold a lock.
  [[nodiscard]] std::unique_ptr<DeviceLane> forget_context(CUcontext context);
  // Device memory of ours in the context, which the program is not to find missing.
  uint64_t own_bytes(CUcontext context);
  // DeviceLane::reading(), or the legacy default stream where the context has no lane.
  CUstream reading_stream(CUcontext context) const;
  // The program has been refused memory of the context's device: gives ours there back. The
  // snapshot on its way ends first. True: try again.
  bool make_room(CUcontext context);
  // Ends the snapshot on its way, if there is one: saved where GPUSNAP_MAX_STALL is enough for
  // that, else abandoned. Nothing of it is left in the device's queues, and nothing that the
  // program does can reach it. The caller holds no lock.
  void end();
  // For other processes: device memory of ours for a loan of that number, and its end. Makes no
  // driver calls. Any thread.
  LoanReply lend(const LoanRequest& request, uint64_t number, std::vector<int>& descriptors);
  void end_loan(uint64_t number);
  // No more snapshots of this process: the device buffers go back. None is on its way. The caller
  // holds no lock.
  void retire();

  uint64_t zone_bytes() const { return snapshot_.zone_bytes; }
  // From the cut until all is in host memory.
  bool running() const { return running_.load(std::memory_order_acquire); }
  // Bytes of the last one that have come to host memory. Any thread.
  uint64_t saved_bytes() const { return snapshot_.saved_bytes(); }
  // Whether calls must say what they are about to write: one load for each call.
  const std::atomic<bool>& wants_writes() const { return wanted_; }
  // The program's own copies to the host, for calls to enter while wants_writes().
  ProgramCopies& program_copies() { return own_copies_; }
  // The calling thread's next call may write `set`, on `stream` of its current context. Returns
  // when the call may be made: what cannot be kept apart in GPUSNAP_MAX_STALL costs the snapshot.
  // `freed`: the memory goes.
  void before_write(const WriteSet& set, CUstream stream, Hold hold, bool freed);

  // The device has run empty, and no call is being made. Decides what has to be saved; nothing is
  // copied before start(). `full`: whether all of it.
  struct Cut {
    bool full = true;
    uint64_t bytes = 0;  // to be saved
  };
  Result<Cut> cut(const MemoryMap& memory, bool full);
  // The memory that there was at the cut, in order of address: the ranges of the manifest.
  const std::vector<TrackedRange>& ranges() const { return snapshot_.zones.ranges(); }
  // The writer gets all that is pending; then, or when the snapshot has failed, `on_end` is called
  // by a thread of ours. `hold`: returns only then.
  using OnEnd = std::function<void(const Status&, const WriteCounts&)>;
  void start(CheckpointWriter& writer, bool hold, OnEnd on_end);
  // Returns when all that is pending of shared memory has been read, or the snapshot is abandoned:
  // other processes may write it from then on.
  void read_shared();
  // The snapshot that has ended: durable, or not to be used. Any thread.
  // `is_base`: the next increment is compared with it, and not with the one before it.
  void complete(bool is_base);
  void drop(const Status& why);
  // Waits until nothing is on its way from the device any more.
  void wait_end();

  // The memory is that of a checkpoint that has just been loaded: what changes is told from there.
  // `in_checkpoint(range)`: whether it has this range, at this address.
  Status adopt(const MemoryMap& memory,
               const std::function<bool(const TrackedRange&)>& in_checkpoint);

 private:
  class Blocks;
  class PeerBlocks;
  class OneSlot;
  using Clock = std::chrono::steady_clock;

  DeviceLane* lane_of(uint64_t context) const;
  // Releases the caches of one device, or of all; tells whether there were any.
  bool release_caches(std::optional<int> device);
  Status fingerprint_all();
  // The links between this lane's device and those of the others.
  void connect(DeviceLane& lane);
  void connect_to_all(DeviceLane& lane) const;
  // The loans of one device, or of all; nothing more is lent.
  void wait_for_loans(std::optional<int> device);
  // Null: there is only one device, or devices go without each other.
  std::unique_ptr<Balancer> make_balancer() const;
  // Makes the offloaders, which know each other where there is a balancer.
  void make_offloaders();
  // Null: other processes are not asked.
  std::shared_ptr<Borrower> make_borrower() const;

  // Copies first what the set touches, as far as there is room for it: true when all of it is on
  // its way. `waits`: what the call has to wait for.
  bool copy_first(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits);
  void duplicate_shared();
  bool copy_to_device(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits);
  bool copy_to_peers(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits);
  bool copy_ahead(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits);
  static void add_once(std::vector<TransferPtr>& to, const std::vector<TransferPtr>& from);
  void start_duplicate(const TransferPtr& transfer);
  void hold_call(const std::vector<TransferPtr>& waits, CUstream stream, Hold hold);
  void hold_stream(const std::vector<TransferPtr>& waits, CUstream stream);
  void await_on_host(const TransferPtr& transfer);
  // The one of the current context; null if it has no lane.
  StreamWaits* stream_waits() const;
  // While `needed`; bounded unless the snapshot has failed already.
  // `why` the snapshot is abandoned where it takes longer.
  void hold_host(const std::function<bool()>& needed, const char* why);
  // How far a call's write set is trusted: it is known to be complete, or it is a guess that is
  // taken for complete, or it is not to be relied upon: the call may write anything.
  enum class Trust : uint8_t { kKnown, kGuess, kOpaque };
  Trust trust(const WriteSet& set);
  void count(const WriteSet& set, Trust trust, bool waited);

  void lane_ended();
  // No copy is on its way any more.
  uint64_t waited_by_streams();

  SnapshotRun snapshot_;
  const NodeLock growth_turns_;  // at device memory
  Workers& workers_;
  std::vector<uint64_t> shared_;  // ranges at the cut that other processes use, by address
  mutable std::mutex lanes_mutex_;
  std::map<CUcontext, std::unique_ptr<DeviceLane>> lanes_;
  std::shared_ptr<Borrower> borrower_;                          // of the last snapshot; or null
  std::unique_ptr<Balancer> balancer_;                          // likewise
  std::map<CUcontext, std::unique_ptr<Offloader>> offloaders_;  // likewise

  std::atomic<bool> running_{false};
  std::atomic<bool> wanted_;  // running_, or always where the calls tell what is dirty
  ProgramCopies own_copies_;
  OnEnd on_end_;
  std::mutex mutex_;  // of what follows
  std::condition_variable ended_;
  size_t lanes_running_ = 0;
  Suspects suspects_;
  WriteCounts counts_;
};

}  // namespace gpusnap
