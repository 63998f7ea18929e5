// SPDX-License-Identifier: Apache-2.0
//
// Which of a rank's checkpoints go to the store and which stay in memory, and what each builds on.
// An increment builds on a checkpoint in the store alone: what is in memory only may go at any
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace gpusnap {

// Not thread-safe. Epochs only rise.
class CheckpointLevels {
 public:
  // Every n-th one goes to the store; 1: all of them.
  explicit CheckpointLevels(uint64_t store_every) : store_every_(store_every) {}
  void set_store_every(uint64_t store_every) { store_every_ = std::max<uint64_t>(store_every, 1); }

  // Whether the next one is to go to the store, as far as this rank's checkpoints go. After one
  // that has failed it is the other level's turn: that may have what the first one lacked.
  bool wants_store() const {
    if (store_every_ <= 1) return true;
    if (last_failed_) return *last_failed_ == Level::kMemory;
    return !any_stored_ || since_stored_ + 1 >= store_every_;
  }

  struct Base {
    uint64_t epoch = 0;  // 0: there is none, and the next one is full
    uint32_t chain = 0;  // ancestors that it has
  };
  // The one on which the next one may build.
  Base base(bool in_memory) const { return in_memory ? Base() : base_; }
  // How many have stayed in memory since the last one that went to the store, with the next one.
  uint64_t next_since_stored(bool in_memory) const { return in_memory ? since_stored_ + 1 : 0; }
  // The last that is complete, as far as this rank goes; 0: none.
  uint64_t newest() const { return newest_; }

  // It is complete, with so many ancestors.
  void succeeded(uint64_t epoch, bool in_memory, uint32_t chain) {
    newest_ = std::max(newest_, epoch);
    last_failed_.reset();
    if (in_memory) {
      ++since_stored_;
      return;
    }
    base_ = {epoch, chain};
    any_stored_ = true;
    since_stored_ = 0;
  }
  void failed(bool in_memory) { last_failed_ = in_memory ? Level::kMemory : Level::kStore; }
  // The process goes on from it. `since_stored`: as next_since_stored() had it.
  // `is_base`: increments can build on it, which the store has.
  void restored(uint64_t epoch, uint64_t since_stored, uint32_t chain, bool is_base) {
    newest_ = epoch;
    any_stored_ = true;
    since_stored_ = is_base ? 0 : since_stored;
    if (is_base) base_ = {epoch, chain};
  }

 private:
  enum class Level : uint8_t { kMemory, kStore };

  uint64_t store_every_;
  uint64_t since_stored_ = 0;
  bool any_stored_ = false;
  std::optional<Level> last_failed_;
  Base base_;
  uint64_t newest_ = 0;
};

// Whether the area holds two images of each rank, which is what memory needs: one that is complete
// and one that is being made. Slots are not filled to the last byte, and journals need some, too.
constexpr bool fits_twice(uint64_t image_bytes, uint64_t ranks, uint64_t slots,
                          uint64_t slot_bytes) {
  const uint64_t image = image_bytes / slot_bytes + image_bytes / slot_bytes / 8 + 2;
  return slots / std::max<uint64_t>(ranks, 1) >= 2 * image + 2;
}

}  // namespace gpusnap
