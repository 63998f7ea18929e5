// SPDX-License-Identifier: Apache-2.0
//
// One process's checkpoints in managed memory, with advice and prefetches: the baseline "UVM" of
// the GPU cache and prefetch paper (section 5.2.2). Every choice that the paper leaves open is made
// in favour of the baseline:
//
// - A write copies within the device as soon as there is room. Pages of the device cost nothing.
// - A flush moves the checkpoint to the host with cudaMemPrefetchAsync, and then writes it to the
//   drives. The checkpoint that is read last is flushed first.
// - Hints prefetch in their order, as long as the device has room for checkpoints that were
//   prefetched and not yet read. A checkpoint that is on the device already stays there, without a
//   flush.
// - A restore without a hint faults.
// - A checkpoint that was read is advised to be on the host, so the driver moves it there at once.
// - A checkpoint that is on the drives, and read last, is dropped from host memory to make room.
// - Nothing fragments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/bench/shots/device_blocks.h"
#include "tests/bench/shots/runtime.h"

namespace gpusnap::shots {

class ManagedEngine final : public Runtime {
 public:
  struct Options {
    uint64_t device_cache = 0, host_cache = 0;  // bytes
    double pinning = 0;                         // bytes per second, as in HostPages
    size_t batch = 16;                          // blocks that migrate at a time
    bool discards_consumed = false;             // what was restored once need not be kept
    bool flushes_by_hints = true;               // or in the order of writes
    bool moves_consumed = true;                 // or what was read is freed, if it need not be kept
  };

  // `gpu`: its index in the node.
  ManagedEngine(Clock& clock, Node& node, unsigned gpu, const Options& options);

  void write(Version version, uint64_t bytes, Done done) override;
  void restore(Version version, Done done) override;
  void when_flushed(Clock::Event then) override;
  void hint(Version version) override;
  void start_prefetching() override;

  bool is_on_device(Version version) const override;
  Medium read_from(Version version) const override { return checkpoints_.at(version).source; }
  uint64_t peak(size_t cache) const override;
  const std::string& fault() const override { return fault_; }

 private:
  struct Checkpoint {
    uint64_t bytes = 0;
    size_t blocks = 0, on_host = 0;
    bool is_written = false;  // by the application
    bool has_pages = false;   // of the host, for all blocks
    bool is_storing = false;  // on its way to the drives
    bool is_stored = false;   // on the drives
    bool is_claimed = false;  // by a prefetch, until it is read
    bool is_consumed = false;
    Medium source = Medium::kDevice;
  };
  using Entry = std::pair<const Version, Checkpoint>;

  // Each begins what can begin now.
  void plan();
  void plan_write();
  void plan_restore();
  void plan_migration_in();
  void plan_migration_out();
  void plan_read();
  void plan_store();

  std::optional<Version> next_in();
  std::optional<Version> next_hinted_in();
  std::optional<Version> next_out() const;
  std::optional<Version> next_read() const;
  void claim(Version version, Checkpoint& checkpoint);
  void consume(Version version);
  void arrived_on_host(Version version);
  void drop(Checkpoint& checkpoint);
  // Drops what is read after `rank`. False: there is no room.
  bool make_host_room(size_t blocks, uint64_t rank);
  void at(int64_t when_ns, Clock::Event event);
  // Among those that `may_go` is true for, the one that is restored last, the oldest of several.
  std::optional<Version> last(const std::function<bool(const Entry&)>& may_go,
                              bool by_hints = true) const;
  // By the order of restores; the greatest if there is no hint.
  uint64_t rank(Version version) const;
  bool is_kept(Version version) const;
  bool need_not_be_kept(const Checkpoint& checkpoint) const;
  bool is_only_stored(Version version, const Checkpoint& checkpoint) const;
  static uint64_t bytes_of(const Checkpoint& checkpoint, size_t blocks);

  Clock& clock_;
  Node& node_;
  const unsigned gpu_;
  const Options options_;
  DeviceBlocks device_;
  HostPages host_;
  std::map<Version, Checkpoint> checkpoints_;
  std::map<uint64_t, Version> hints_;  // not yet consumed, by rank
  std::map<Version, uint64_t> ranks_;
  uint64_t hinted_ = 0;
  bool prefetches_ = false;
  size_t claimed_ = 0;  // blocks
  Done done_;
  Clock::Event flushed_;
  std::optional<Version> writing_, restoring_;
  size_t lacking_ = 0;       // blocks without room, of what is written
  bool is_copying_ = false;  // between the device and the application
  bool moves_in_ = false, moves_out_ = false, reads_ = false, stores_ = false;
  bool wants_room_ = false, wants_pages_ = false;
  std::string fault_;
};

}  // namespace gpusnap::shots
