// SPDX-License-Identifier: Apache-2.0
//
// One logical snapshot after the other, as those have it who save it: the zones, how it gets on,
// and the way of what was saved to the writer. Calls that copy zones first (snapshots.h) and
// offloaders (offloader.h) both work on it.
//
// Any thread, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "interpose/direct/direct_storage.h"
#include "interpose/hook/driver.h"
#include "interpose/services/settings.h"
#include "tiers/backend/remote_writer.h"
#include "tiers/staging/pool.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

class SnapshotRun {
 public:
  // They outlive it. `storage`: null where nothing goes to local tiers directly.
  SnapshotRun(const Driver& used, const Settings& given, StagingPool& staging,
              DirectStorage* storage);
  SnapshotRun(const SnapshotRun&) = delete;
  SnapshotRun& operator=(const SnapshotRun&) = delete;

  // At a cut: nothing has failed yet.
  void begin();
  // Before anything is saved. `forced`: holds the program as long as it takes.
  void start(CheckpointWriter& writer, bool forced);

  // ---- the way to the host
  CheckpointWriter& writer() { return *writer_; }
  // To the slot's byte `place` and on.
  CUresult copy_to_slot(const Transfer& transfer, Slot* slot, uint64_t place, CUstream stream);
  bool arrived(void* event);
  // Finds out whether a slot with these pieces has the bytes that they had at the cut. Empty where
  // the calls tell what is dirty.
  CheckpointWriter::Check check_of(std::span<const Piece> pieces) const;
  // Bytes have come to host memory; to a file of an offloader's.
  void note_saved(uint64_t bytes) { saved_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void note_direct(uint64_t bytes) {
    note_saved(bytes);
    direct_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // A direct write may read a buffer of ours, though no snapshot waits for it any more.
  bool has_stuck_write() const { return direct != nullptr && direct->is_stuck(); }
  uint64_t fingerprint_at_cut(uint32_t range, uint64_t offset) const {
    return zones.ranges()[range].at_cut[offset / zone_bytes];
  }
  // Bytes of the last one that have come to host memory; of these, in files that offloaders write.
  uint64_t saved_bytes() const { return saved_bytes_.load(std::memory_order_relaxed); }
  uint64_t direct_bytes() const { return direct_bytes_.load(std::memory_order_relaxed); }

  // ---- the end of it
  Status status();
  bool failed() { return !status().ok(); }
  void fail(const Status& why);
  static constexpr const char* kNoRoom = "no buffer came free";
  Status too_late(const char* why) const;

  // ---- who waits for whom
  bool is_forced() const { return forced_; }
  bool is_bounded() const { return settings.organisation.blocking && !forced_; }
  // A call waits, until the end.
  void let_call_wait() { waiting_.store(true, std::memory_order_relaxed); }
  // A thread of the program waits for the end of the snapshot, so none of its copies waits for one
  // of ours.
  bool holds_program() const {
    return settings.organisation.blocking || forced_ || waiting_.load(std::memory_order_relaxed);
  }

  const Driver& driver;
  const Settings& settings;
  StagingPool& pool;
  DirectStorage* const direct;
  const uint64_t zone_bytes;
  const bool dirty_from_calls;
  SnapshotZones zones;

 private:
  std::atomic<uint64_t> saved_bytes_{0}, direct_bytes_{0};
  bool forced_ = false;
  std::atomic<bool> waiting_{false};
  CheckpointWriter* writer_ = nullptr;
  std::mutex mutex_;
  Status status_;  // under mutex_
};

}  // namespace gpusnap
