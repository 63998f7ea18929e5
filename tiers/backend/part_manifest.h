// SPDX-License-Identifier: Apache-2.0
// The manifest of one rank's part of a checkpoint: comes from the client in slots, is put together
// from them, and gets the extents, which only the backend knows. Touches no files.
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

// Used by the part's thread, but for what says otherwise.
class PartManifest {
 public:
  struct Slot {
    uint64_t sequence = 0;
    std::span<const std::byte> bytes;  // stay until released
    CheckpointReceiver::Release release;
  };

  // A slot that waits to be noted. Any thread.
  void add_waiting(Slot slot);
  // The first one that waits; there has to be one. The caller releases it.
  Slot take_waiting();
  // Releases those that wait as not stored. After the part's thread.
  void release_waiting();

  // The bytes of a slot that has been noted, by this backend or by an earlier one. Any thread.
  void add(uint64_t sequence, std::span<const std::byte> bytes);
  // When all slots are there: puts them together and says what the manifest needs. Once is enough;
  // kInvalid or kDamaged where they are no manifest.
  Status assemble();
  // Without segments and extents. After assemble().
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

// Adds segments to a manifest, and then extents in them. Where extents say which segment they lie
// in, they come with the number in its name, and leave with its index in the manifest. One thread.
class ManifestExtents {
 public:
  // Both outlive it. `moved`: chunks, by number, and where in segments they lie.
  ManifestExtents(Manifest& manifest, const std::map<uint32_t, MovedChunk>& moved)
      : manifest_(manifest), moved_(moved) {}

  void add_segment(uint32_t number, SegmentRef segment);
  // Both functions below: after all segments. A segment or a chunk that is not known throws
  // out_of_range.
  void add_blocks(std::span<const SegmentStore::StoredBlock> blocks);
  void add_extents(std::vector<Extent>& extents);  // moves them away

 private:
  void add(Extent extent);

  Manifest& manifest_;
  const std::map<uint32_t, MovedChunk>& moved_;
  std::map<uint32_t, uint32_t> index_;  // by the segment's number
};

}  // namespace gpusnap
