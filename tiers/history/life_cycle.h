// SPDX-License-Identifier: Apache-2.0
//
// The life cycle of one copy of a checkpoint on one tier (GPU cache and prefetch paper, section
// 4.1.2 and figure 1). Pure logic: no clock, no thread, no I/O.
//
// Each tier has its own copy of a checkpoint, and each copy its own state. The paper names the
// states; it does not say which events change them, so the table is ours:
//
//   from                     event            to
//   init                     kReserveWrite    write in progress
//   init                     kReserveRead     read in progress
//   write in progress        kFilled          write complete
//   read in progress         kFilled          read complete
//   write complete           kStoredBelow     flushed
//   flushed                  kLostBelow       write complete      (has to be flushed again)
//   write complete, flushed  kClaim           read complete       (no data moves)
//   consumed, read complete  kClaim           read complete       (hinted again while still cached)
//   read complete            kDelivered       consumed
//   write complete           kConsumedAbove   consumed            (if it may be discarded and its
//                                                                  flush has not begun)
//   flushed, consumed        kEvict           gone                (if evictable())
//   failed                   kEvict           gone
//   all but gone             kFail            failed
//
// kStoredBelow and kLostBelow leave every other state that holds data as it is: a claimed copy is
// flushed on.
// kConsumedAbove while the copy is being written is handled by the caller after kFilled: memory
// that a transfer writes to is never evictable.
#pragma once

#include <cstdint>
#include <optional>

namespace gpusnap::history {

enum class CopyState : uint8_t {
  kInit,  // the tier holds nothing of the checkpoint
  kWriteInProgress,
  kWriteComplete,   // holds all bytes; the next tier may not
  kFlushed,         // the next tier holds all bytes, too
  kReadInProgress,  // is being prefetched or restored from the next tier
  kReadComplete,    // pinned until it is delivered
  kConsumed,        // delivered to the application, or promoted to a faster tier
  kGone,
  kFailed,  // an I/O error: the next slower copy serves
};
inline constexpr int kCopyStates = 9;

enum class CopyEvent : uint8_t {
  kReserveWrite,
  kReserveRead,
  kFilled,
  kStoredBelow,
  kLostBelow,  // the slower copies turned out to be unreadable
  kClaim,
  kDelivered,
  kConsumedAbove,
  kEvict,
  kFail,
};
inline constexpr int kCopyEvents = 10;

struct CopyFacts {
  bool stored_below = false;      // the next slower tier holds all bytes
  bool may_be_discarded = false;  // the user lets consumed checkpoints go (discard_consumed)
  bool flush_begun = false;       // to the next slower tier
  bool slowest_tier = false;
  bool in_use = false;  // a transfer reads or writes the copy's memory
};

// True if the memory of the copy may be taken now without losing the only copy of a checkpoint that
// is still wanted. A copy may be consumed, or fail, while its flush still reads it.
bool evictable(CopyState state, const CopyFacts& facts);

// The state after `event`; nothing if the event may not happen in this state.
std::optional<CopyState> next_state(CopyState state, CopyEvent event, const CopyFacts& facts);

// For messages and test output: "write complete".
const char* name_of(CopyState state);

}  // namespace gpusnap::history
