// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/life_cycle.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace gpusnap::history {
namespace {

using enum CopyState;
using enum CopyEvent;

constexpr CopyFacts facts_of(unsigned bits) {
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0};
}
constexpr unsigned kAllFacts = 32;

// Every transition that depends on nothing else.
const std::map<std::pair<CopyState, CopyEvent>, CopyState> kAlways = {
    {{kInit, kReserveWrite}, kWriteInProgress},
    {{kInit, kReserveRead}, kReadInProgress},
    {{kWriteInProgress, kFilled}, kWriteComplete},
    {{kReadInProgress, kFilled}, kReadComplete},
    {{kWriteComplete, kStoredBelow}, kFlushed},
    {{kFlushed, kStoredBelow}, kFlushed},
    {{kReadComplete, kStoredBelow}, kReadComplete},
    {{kConsumed, kStoredBelow}, kConsumed},
    {{kWriteComplete, kLostBelow}, kWriteComplete},
    {{kFlushed, kLostBelow}, kWriteComplete},
    {{kReadComplete, kLostBelow}, kReadComplete},
    {{kConsumed, kLostBelow}, kConsumed},
    {{kWriteComplete, kClaim}, kReadComplete},
    {{kFlushed, kClaim}, kReadComplete},
    {{kReadComplete, kClaim}, kReadComplete},
    {{kConsumed, kClaim}, kReadComplete},
    {{kReadComplete, kDelivered}, kConsumed},
    {{kInit, kFail}, kFailed},
    {{kWriteInProgress, kFail}, kFailed},
    {{kWriteComplete, kFail}, kFailed},
    {{kFlushed, kFail}, kFailed},
    {{kReadInProgress, kFail}, kFailed},
    {{kReadComplete, kFail}, kFailed},
    {{kConsumed, kFail}, kFailed},
    {{kFailed, kFail}, kFailed},
};

std::optional<CopyState> expected(CopyState state, CopyEvent event, const CopyFacts& facts) {
  const auto found = kAlways.find({state, event});
  if (found != kAlways.end()) return found->second;
  if (event == kEvict && facts.in_use) return std::nullopt;
  if ((state == kFlushed || state == kFailed) && event == kEvict) return kGone;
  if (state == kConsumed && event == kEvict) {
    const bool kept_elsewhere = facts.stored_below || facts.may_be_discarded || facts.slowest_tier;
    return kept_elsewhere ? std::optional(kGone) : std::nullopt;
  }
  if (state == kWriteComplete && event == kConsumedAbove && facts.may_be_discarded &&
      !facts.flush_begun) {
    return kConsumed;
  }
  return std::nullopt;
}

TEST(LifeCycle, EveryStateAndEventWhateverTheFacts) {
  for (int state = 0; state < kCopyStates; ++state) {
    for (int event = 0; event < kCopyEvents; ++event) {
      for (unsigned bits = 0; bits < kAllFacts; ++bits) {
        const auto from = static_cast<CopyState>(state);
        const auto by = static_cast<CopyEvent>(event);
        EXPECT_EQ(next_state(from, by, facts_of(bits)), expected(from, by, facts_of(bits)))
            << name_of(from) << ", event " << event << ", facts " << bits;
      }
    }
  }
}

TEST(LifeCycle, EveryStateIsReached) {
  std::set<CopyState> reached = {kInit};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const CopyState state : std::set(reached)) {
      for (int event = 0; event < kCopyEvents; ++event) {
        for (unsigned bits = 0; bits < kAllFacts; ++bits) {
          const auto next = next_state(state, static_cast<CopyEvent>(event), facts_of(bits));
          if (next) reached.insert(*next);
        }
      }
    }
  }
  EXPECT_EQ(reached.size(), kCopyStates);
}

TEST(LifeCycle, NothingThatIsBeingFilledOrReadIsEvictable) {
  for (unsigned bits = 0; bits < kAllFacts; ++bits) {
    for (const CopyState state :
         {kInit, kWriteInProgress, kWriteComplete, kReadInProgress, kReadComplete, kGone}) {
      EXPECT_FALSE(evictable(state, facts_of(bits))) << name_of(state);
    }
  }
}

}  // namespace
}  // namespace gpusnap::history
