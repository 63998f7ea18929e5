// The means of snapshots in one context of the program: streams and events of our own, our kernels,
// and memory on the device. Made when the context is first seen, in recordings and replays alike,
// so that the driver lays out the program's memory in the same way.
//
// Nothing here is on a stream of the program, and nothing of the program's waits for our kernels.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "interpose/device/device_code.h"
#include "interpose/model/mapped_memory.h"
#include "interpose/services/control.h"
#include "interpose/services/node_turn.h"
#include "interpose/snapshot/copy_throttle.h"
#include "interpose/snapshot/event_pool.h"
#include "interpose/snapshot/peer_buffer.h"
#include "interpose/snapshot/peer_links.h"
#include "interpose/snapshot/stream_waits.h"
#include "tiers/io/system_call.h"
#include "tiers/status.h"
#include "tracker/block_pool.h"
#include "tracker/loans.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

// The device's identifier, the same in all processes; zeros where the driver has none.
DeviceId device_id(const Driver& driver, int device);

// A table that both sides have: device memory and, beside it, pinned host memory.
struct Scratch {
  CUdeviceptr device = 0;
  std::byte* host = nullptr;
  uint64_t size = 0;
};

// The copies of one gathering of scattered zones (section 4.3.1).
struct GatherTable {
  Scratch table;
  bool busy = false;  // until the kernel has read it
};

class DeviceLane final : public PeerBuffer {
 public:
  // In the current context. `turns`: of the node's processes, for grow_cache(); null: none.
  // Outlives it. `lends`: other processes may borrow blocks, where the driver can do that.
  static Result<std::unique_ptr<DeviceLane>> make(const Driver& driver, CUcontext context,
                                                  const NodeLock* turns = nullptr,
                                                  bool lends = false);
  // The context has ended, and all that was in it.
  ~DeviceLane() override;
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  CUcontext context() const { return context_; }
  uint64_t number() const { return reinterpret_cast<uint64_t>(context_); }  // its handle
  int device() const override { return tables_.device; }
  const DeviceId& id() const { return id_; }
  CUstream offload() const { return offload_; }  // of the least priority: for the background
  CUstream gate() const { return gate_; }        // of the greatest: what calls wait for
  // Likewise, for what goes to the host: engines for the two directions work side by side.
  CUstream gate_to_host() const { return gate_to_host_; }
  // The stream of the least priority for our gathering kernel: it runs beside copies to the host.
  CUstream gathering() const { return gathering_; }
  // For what another library is about to read: behind the legacy default stream, and behind no
  // other of the program's.
  CUstream reading() const { return reading_; }
  Stopwatch& watch() { return watch_; }  // the offloader's
  PeerLinks& peer_links() { return peer_links_; }
  // Times copies to the host. The offloader's, but for rate().
  LinkClock& host_clock() { return host_clock_; }
  // An event that tells when the stream has come to its present end; it goes back with its last
  // user. Null: none could be had, and what was enqueued has been waited for. The context is
  // current; thread-safe.
  std::shared_ptr<void> record(CUstream stream);
  StreamWaits& stream_waits() { return stream_waits_; }

  // Fingerprints of ranges [address, address + size), one a zone, into `out`. Waits for them; the
  // context is current.
  struct Fingerprinted {
    uint64_t address = 0;
    uint64_t size = 0;
    std::span<uint64_t> out;
  };
  Status fingerprint(std::span<const Fingerprinted> ranges, uint64_t zone_bytes);

  // Copies the pieces, by our kernel on the gathering stream.
  CUresult gather(GatherTable& table, std::span<const DeviceCode::Piece> pieces);
  // For one thread, the offloader's: null where both are busy.
  GatherTable* free_gather_table();

  // Device memory for what is gathered and for duplicates of zones of `zone_bytes`, up to
  // `cache_bytes` in all: a part at a time, by the offloader, which has the time between its
  // copies. Where there is none to be had snapshots go without. Processes of a node take turns:
  // they would slow each other's (the deep-tiers showcase, slide 24). For one thread.
  void grow_cache(uint64_t cache_bytes, uint64_t zone_bytes);

  // Gives devices that take_blocks_for() has turned away access to the buffer, to what is there and
  // to what will be. For the thread of grow_cache().
  void let_devices_in();

  // Blocks of one zone each, in device memory. Thread-safe.
  BlockPool::Run take_blocks(uint64_t most);
  void give_back_blocks(BlockPool::Run run);
  // None before let_devices_in().
  BlockPool::Run take_blocks_for(int device, uint64_t most) override;
  void give_back_guests(BlockPool::Run run) override;
  uint64_t blocks();  // in all
  // Less than half of those that other devices have left to this one.
  bool few_blocks_left();
  // Bytes of blocks that are free; with all that the buffer of `cache_bytes` may still grow by.
  uint64_t free_bytes();
  uint64_t room_bytes(uint64_t cache_bytes);
  CUdeviceptr block(uint64_t index) override;

  // Free blocks of so many bytes are not lent to other processes: what a snapshot of this context
  // has needed.
  void keep_bytes(uint64_t bytes);
  // Blocks for another process, of at most `most` bytes; an error where there are none. The
  // descriptors are the caller's. Makes no driver calls.
  LoanReply lend(uint64_t number, uint64_t most, std::vector<int>& descriptors);
  // The borrower uses them no more. False: the loan is not of this lane.
  bool end_loan(uint64_t number);
  // Nothing more is lent. Waits for the loans that there are: false where they have not ended
  // within `longest`.
  bool stop_lending(std::chrono::nanoseconds longest);

  // Memory of the device from which storage is written directly (interpose/direct/), the same at
  // each call; 0: there is none. For one thread, the offloader's.
  CUdeviceptr direct_buffer(uint64_t bytes);

  // Device memory that the program must not find missing.
  uint64_t own_bytes();
  // Parts with the blocks, where nobody uses them, because the program needs the
  // memory: for the caller to unmap, who holds no lock. No address: there is nothing, or it is in
  // use.
  GrowingMemory take_cache();

 private:
  // Bytes a second that a device with 16 lanes of PCIe 4.0 reaches.
  static constexpr uint64_t kGuessedHostRate = 25'000'000'000;

  DeviceLane(const Driver& driver, CUcontext context, const NodeLock* turns, bool lends)
      : driver_(driver),
        context_(context),
        turns_(turns),
        events_(driver, CU_EVENT_DISABLE_TIMING),
        stream_waits_(driver),
        watch_(driver),
        host_clock_(driver, kGuessedHostRate),
        peer_links_(driver),
        may_lend_(lends),
        lends_(lends) {}
  Status set_up();
  Status map_tables();
  // Nothing: it is the turn of another process.
  std::optional<Status> back_cache_in_turn(GrowingMemory& cache, uint64_t cache_bytes);
  Status back_cache(GrowingMemory& cache, uint64_t cache_bytes) const;
  std::optional<Descriptor> export_last(const GrowingMemory& cache) const;
  LoanReply pieces_of(BlockPool::Run run, std::vector<int>& descriptors) const;  // with the lock
  bool end(uint64_t loan);                                                       // likewise
  void refuse(int device);                                                       // likewise
  // The parts of the cache from this one on.
  CUresult allow(const GrowingMemory& cache, size_t first_part, int device) const;
  CUresult upload_spans(uint32_t count);
  Status fingerprint_batch(uint32_t spans, uint64_t zones, uint64_t zone_bytes);

  const Driver& driver_;
  const CUcontext context_;
  DeviceId id_{};
  NodeTurn turns_;  // the offloader's
  EventPool events_;
  StreamWaits stream_waits_;
  Stopwatch watch_;
  LinkClock host_clock_;
  PeerLinks peer_links_;
  CUstream offload_ = nullptr, gathering_ = nullptr, gate_ = nullptr, gate_to_host_ = nullptr;
  CUstream reading_ = nullptr;
  std::unique_ptr<DeviceCode> code_;
  // Mapped, so that the addresses that the program gets do not depend on what we have.
  MappedMemory tables_;
  std::byte* host_tables_ = nullptr;
  bool reaches_host_tables_ = false;  // kernels do
  CUdeviceptr host_tables_on_device_ = 0;
  Scratch spans_, fingerprints_;
  std::vector<std::byte> on_device_;  // what the device has of spans_
  // Where kernels write fingerprints that the host finds in fingerprints_.host: that memory itself,
  // or, where they do not reach it, that on the device, which is copied.
  CUdeviceptr fingerprints_out_ = 0;
  std::array<GatherTable, 2> gather_;
  const bool may_lend_;

  std::mutex mutex_;      // of what follows
  bool has_all_ = false;  // of the cache that is to be had
  bool growing_ = false;  // the cache, without the lock
  GrowingMemory cache_;
  MappedMemory direct_;
  uint64_t zone_bytes_ = 0;
  BlockPool blocks_;
  uint64_t guest_blocks_ = 0;  // with zones of other devices, or lent
  bool lends_;
  std::vector<Descriptor> files_;  // of the cache's parts, as far as they may be lent
  Loans loans_;
  uint64_t kept_bytes_ = 0;
  std::condition_variable loan_ended_;
  // Devices by what became of their wish to write to blocks.
  std::set<int> asked_, let_in_, refused_;
};

}  // namespace gpusnap
