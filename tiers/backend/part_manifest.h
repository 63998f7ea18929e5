// SPDX-License-Identifier: Apache-2.0
// The manifest of one rank's part of a checkpoint: it comes from the client in slots, is assembled
// from them, and gets the extents, which only the backend knows. No file is touched.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tiers/backend/block_log.h"
#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/message.h"
#include "tiers/manifest.h"
#include "tiers/mutex.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"

namespace gpusnap {

// Used by the part's thread, except for functions marked "any thread".
class PartManifest {
 public:
  struct Slot {
    uint64_t sequence = 0;
    std::span<const std::byte> bytes;  // stay until released
    CheckpointReceiver::Release release;
  };

  // Adds a slot that waits to be recorded in the log. Any thread.
  void add_waiting(Slot slot);
  // Returns the first waiting slot; there must be one. The caller releases it.
  Slot take_waiting();
  // Releases the waiting slots as not stored. After the part's thread has ended.
  void release_waiting();

  // Adds the bytes of a slot that this backend or an earlier one has recorded. Any thread.
  void add(uint64_t sequence, std::span<const std::byte> bytes);
  // Assembles the manifest from all slots and finds what it needs. Further calls do nothing.
  // Returns kInvalid or kDamaged if the slots are no manifest.
  Status assemble();
  // The manifest without segments and extents. After assemble().
  const Manifest& manifest() const { return *manifest_; }

  // See CheckpointReceiver::needs(). Any thread.
  CheckpointReceiver::Needs needs(ManifestText::Journal& journal) const;

 private:
  std::optional<Manifest> manifest_;

  mutable Mutex mutex_;
  std::map<uint64_t, std::vector<std::byte>> slots_ GUARDED_BY(mutex_);  // by sequence
  std::deque<Slot> waiting_ GUARDED_BY(mutex_);
  CheckpointReceiver::Needs needs_ GUARDED_BY(mutex_) = CheckpointReceiver::Needs::kUnknown;
  ManifestText::Journal journal_ GUARDED_BY(mutex_);
};

// Adds segments to a manifest, and then extents in them. An extent comes with the number in its
// segment's name and gets the segment's index in the manifest instead. Used by one thread.
class ManifestExtents {
 public:
  // Both outlive it. `moved`: the chunks that lie in segments, by number.
  ManifestExtents(Manifest& manifest, const std::map<uint32_t, MovedChunk>& moved)
      : manifest_(manifest), moved_(moved) {}

  void add_segment(uint32_t number, SegmentRef segment);
  // Both functions below are called after all segments have been added. They throw out_of_range if
  // a segment or chunk is not known.
  void add_blocks(std::span<const SegmentStore::StoredBlock> blocks);
  void add_extents(std::vector<Extent>& extents);  // moves them away

 private:
  void add(Extent extent);

  Manifest& manifest_;
  const std::map<uint32_t, MovedChunk>& moved_;
  std::map<uint32_t, uint32_t> index_;  // by the segment's number
};

}  // namespace gpusnap
