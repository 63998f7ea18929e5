// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/life_cycle.h"

namespace gpusnap::history {

namespace {

bool holds_data(CopyState state) {
  using enum CopyState;
  return state == kWriteComplete || state == kFlushed || state == kReadComplete ||
         state == kConsumed;
}

std::optional<CopyState> if_so(bool allowed, CopyState state) {
  return allowed ? std::optional(state) : std::nullopt;
}

}  // namespace

bool evictable(CopyState state, const CopyFacts& facts) {
  using enum CopyState;
  if (facts.in_use) return false;
  if (state == kFlushed || state == kFailed) return true;
  return state == kConsumed && (facts.stored_below || facts.may_be_discarded || facts.slowest_tier);
}

std::optional<CopyState> next_state(CopyState state, CopyEvent event, const CopyFacts& facts) {
  using enum CopyState;
  switch (event) {
    case CopyEvent::kReserveWrite:
      return if_so(state == kInit, kWriteInProgress);
    case CopyEvent::kReserveRead:
      return if_so(state == kInit, kReadInProgress);
    case CopyEvent::kFilled:
      if (state == kWriteInProgress) return kWriteComplete;
      return if_so(state == kReadInProgress, kReadComplete);
    case CopyEvent::kStoredBelow:
      if (state == kWriteComplete) return kFlushed;
      return if_so(holds_data(state), state);
    case CopyEvent::kLostBelow:
      if (state == kFlushed) return kWriteComplete;
      return if_so(holds_data(state), state);
    case CopyEvent::kClaim:
      return if_so(holds_data(state), kReadComplete);
    case CopyEvent::kDelivered:
      return if_so(state == kReadComplete, kConsumed);
    case CopyEvent::kConsumedAbove:
      return if_so(state == kWriteComplete && facts.may_be_discarded && !facts.flush_begun,
                   kConsumed);
    case CopyEvent::kEvict:
      return if_so(evictable(state, facts), kGone);
    case CopyEvent::kFail:
      return if_so(state != kGone, kFailed);
  }
  return std::nullopt;
}

const char* name_of(CopyState state) {
  switch (state) {
    case CopyState::kInit:
      return "init";
    case CopyState::kWriteInProgress:
      return "write in progress";
    case CopyState::kWriteComplete:
      return "write complete";
    case CopyState::kFlushed:
      return "flushed";
    case CopyState::kReadInProgress:
      return "read in progress";
    case CopyState::kReadComplete:
      return "read complete";
    case CopyState::kConsumed:
      return "consumed";
    case CopyState::kGone:
      return "gone";
    case CopyState::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace gpusnap::history
